#ifndef TRACE_H
#define TRACE_H

#include "scene.h"

/* The colour that is seen along a ray: of the nearest shape, lit by every light that no shape hides, and of what it
 * mirrors.
 *
 * A ray is held against every shape: no grid or tree of boxes spares it any, so that all rays take much the same work.
 */
Vector trace_ray(const Scene *scene, const Ray *ray);

#endif
