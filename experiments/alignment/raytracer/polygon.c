#include "polygon.h"

static const double flat = 1e-9; /* a distance from the plane, and the cosine of a ray beside it, that count as none */

bool polygon_prepare(Polygon *polygon)
{
    const Vector *corners = polygon->corners;
    Vector normal = cross(subtract(corners[1], corners[0]), subtract(corners[2], corners[0]));
    if (dot(normal, normal) == 0)
        return false;
    polygon->normal = unit(normal);
    for (int index = 0; index < polygon->count; index++) {
        Vector edge = subtract(corners[(index + 1) % polygon->count], corners[index]);
        polygon->edges[index] = cross(polygon->normal, edge);
        for (int other = 0; other < polygon->count; other++) {
            Vector offset = subtract(corners[other], corners[index]);
            if (fabs(dot(offset, polygon->normal)) > flat || dot(offset, polygon->edges[index]) < -flat)
                return false;
        }
    }
    return true;
}

double polygon_distance(const Polygon *polygon, const Ray *ray, double least)
{
    double slope = dot(polygon->normal, ray->direction);
    if (fabs(slope) < flat)
        return INFINITY;
    double distance = dot(polygon->normal, subtract(polygon->corners[0], ray->origin)) / slope;
    if (distance <= least)
        return INFINITY;
    Vector point = ray_point(ray, distance);
    for (int index = 0; index < polygon->count; index++) {
        if (dot(polygon->edges[index], subtract(point, polygon->corners[index])) < 0)
            return INFINITY;
    }
    return distance;
}

Vector polygon_normal(const Polygon *polygon, const Ray *ray)
{
    return dot(polygon->normal, ray->direction) > 0 ? scale(polygon->normal, -1) : polygon->normal;
}
