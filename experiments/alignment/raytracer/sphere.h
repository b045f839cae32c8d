#ifndef SPHERE_H
#define SPHERE_H

#include "vector.h"

typedef struct {
    Vector centre;
    double radius;
} Sphere;

/* How far along the ray it meets the sphere, beyond `least`; INFINITY where it does not. */
double sphere_distance(const Sphere *sphere, const Ray *ray, double least);

/* The direction that is normal to the sphere at a point of it, outwards. */
Vector sphere_normal(const Sphere *sphere, Vector point);

#endif
