#include "sphere.h"

double sphere_distance(const Sphere *sphere, const Ray *ray, double least)
{
    Vector offset = subtract(sphere->centre, ray->origin);
    double along = dot(offset, ray->direction);
    double square = along * along - dot(offset, offset) + sphere->radius * sphere->radius;
    if (square < 0)
        return INFINITY;
    double half = sqrt(square);
    if (along - half > least)
        return along - half;
    return along + half > least ? along + half : INFINITY;
}

Vector sphere_normal(const Sphere *sphere, Vector point)
{
    return scale(subtract(point, sphere->centre), 1 / sphere->radius);
}
