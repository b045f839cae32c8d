#ifndef RENDER_H
#define RENDER_H

#include <stdio.h>

#include "scene.h"

/* Writes a film: pictures one behind the other, each a binary PPM, row by row from the top, one ray a pixel. */
void render_film(const Scene *scene, int width, int height, int pictures, FILE *out);

#endif
