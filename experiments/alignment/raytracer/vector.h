/* Points, directions and colours: three numbers. */
#ifndef VECTOR_H
#define VECTOR_H

#include <math.h>

typedef struct {
    double x, y, z;
} Vector;

static inline Vector add(Vector a, Vector b) { return (Vector){a.x + b.x, a.y + b.y, a.z + b.z}; }
static inline Vector subtract(Vector a, Vector b) { return (Vector){a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline Vector scale(Vector a, double factor) { return (Vector){a.x * factor, a.y * factor, a.z * factor}; }
static inline double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

static inline Vector cross(Vector a, Vector b)
{
    return (Vector){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static inline Vector unit(Vector a) { return scale(a, 1 / sqrt(dot(a, a))); }

typedef struct {
    Vector origin;
    Vector direction; /* of length 1 */
} Ray;

static inline Vector ray_point(const Ray *ray, double distance)
{
    return add(ray->origin, scale(ray->direction, distance));
}

#endif
