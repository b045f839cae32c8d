/* The scene: what there is to see, read from a file of lines. `#` begins a comment. Lengths and brightness have no
 * unit.
 *
 *     camera  X Y Z  X Y Z  ANGLE           where it stands, where it looks, how many degrees of the height it sees
 *     travel  X Y Z                         how far the camera moves, looking the same way, from the first picture
 *                                           to the last
 *     sky     R G B                         colour where a ray meets nothing
 *     light   X Y Z  BRIGHTNESS
 *     surface R G B  MIRROR                 of all shapes that follow: colour, and the share of light that it mirrors
 *     sphere  X Y Z  RADIUS
 *     polygon X Y Z  X Y Z  X Y Z  …        three to six corners in one plane
 *     fence   X Y Z  WIDTH HEIGHT  N        N upright boards side by side, from this corner in the direction of x
 */
#ifndef SCENE_H
#define SCENE_H

#include <stdio.h>

#include "polygon.h"
#include "sphere.h"

enum { SCENE_SHAPES = 512, SCENE_LIGHTS = 4 };

typedef struct {
    Vector colour;
    double mirror;
} Surface;

typedef struct {
    enum { SHAPE_SPHERE, SHAPE_POLYGON } kind;
    Surface surface;
    union {
        Sphere sphere;
        Polygon polygon;
    };
} Shape;

typedef struct {
    Vector place;
    double brightness;
} Light;

typedef struct {
    Vector eye, target, travel;
    double angle; /* degrees */
} Camera;

typedef struct {
    Camera camera;
    Vector sky;
    int light_count, shape_count;
    Light lights[SCENE_LIGHTS];
    Shape shapes[SCENE_SHAPES];
} Scene;

/* Reads a scene. NULL when it is right, else what is wrong with line `*line`. */
const char *scene_read(FILE *in, Scene *scene, unsigned *line);

#endif
