#include "trace.h"

#include <stdbool.h>

enum { MIRRORED = 3 }; /* mirrors that a ray is followed through */

static const double ambient = 0.12; /* light that comes from everywhere */
static const double nearest = 1e-6; /* so far a ray is clear of the surface that it leaves */

typedef struct {
    const Shape *shape; /* NULL: the sky */
    double distance;
} Hit;

static double shape_distance(const Shape *shape, const Ray *ray)
{
    if (shape->kind == SHAPE_SPHERE)
        return sphere_distance(&shape->sphere, ray, nearest);
    return polygon_distance(&shape->polygon, ray, nearest);
}

static Hit find_nearest(const Scene *scene, const Ray *ray)
{
    Hit hit = {NULL, INFINITY};
    for (int index = 0; index < scene->shape_count; index++) {
        double distance = shape_distance(&scene->shapes[index], ray);
        if (distance < hit.distance)
            hit = (Hit){&scene->shapes[index], distance};
    }
    return hit;
}

static bool is_hidden(const Scene *scene, const Ray *ray, double light_distance)
{
    return find_nearest(scene, ray).distance < light_distance;
}

static Vector shape_normal(const Shape *shape, const Ray *ray, Vector point)
{
    if (shape->kind == SHAPE_SPHERE)
        return sphere_normal(&shape->sphere, point);
    return polygon_normal(&shape->polygon, ray);
}

static double light_at(const Scene *scene, Vector point, Vector normal)
{
    double sum = ambient;
    for (int index = 0; index < scene->light_count; index++) {
        Vector offset = subtract(scene->lights[index].place, point);
        double distance = sqrt(dot(offset, offset));
        Ray to_light = {point, scale(offset, 1 / distance)};
        double slope = dot(normal, to_light.direction);
        if (slope > 0 && !is_hidden(scene, &to_light, distance))
            sum += slope * scene->lights[index].brightness;
    }
    return sum;
}

static Vector follow(const Scene *scene, const Ray *ray, int mirrors)
{
    Hit hit = find_nearest(scene, ray);
    if (!hit.shape)
        return scene->sky;
    Vector point = ray_point(ray, hit.distance);
    Vector normal = shape_normal(hit.shape, ray, point);
    const Surface *surface = &hit.shape->surface;
    Vector colour = scale(surface->colour, light_at(scene, point, normal) * (1 - surface->mirror));
    if (surface->mirror == 0 || mirrors == MIRRORED)
        return colour;
    Ray mirrored = {point, subtract(ray->direction, scale(normal, 2 * dot(normal, ray->direction)))};
    return add(colour, scale(follow(scene, &mirrored, mirrors + 1), surface->mirror));
}

Vector trace_ray(const Scene *scene, const Ray *ray) { return follow(scene, ray, 0); }
