#ifndef POLYGON_H
#define POLYGON_H

#include <stdbool.h>

#include "vector.h"

enum { POLYGON_CORNERS = 6 };

/* A flat convex polygon, seen from both sides. */
typedef struct {
    int count;
    Vector corners[POLYGON_CORNERS];
    Vector normal;                 /* of length 1 */
    Vector edges[POLYGON_CORNERS]; /* for each edge a direction in the plane that is normal to it, inwards */
} Polygon;

/* Works out normal and edges from the corners. False when the corners are not a flat convex polygon. */
bool polygon_prepare(Polygon *polygon);

/* How far along the ray it meets the polygon, beyond `least`; INFINITY where it does not. */
double polygon_distance(const Polygon *polygon, const Ray *ray, double least);

/* The direction that is normal to the polygon, on the side that the ray comes from. */
Vector polygon_normal(const Polygon *polygon, const Ray *ray);

#endif
