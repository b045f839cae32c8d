#include "scene.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 512, MOST_NUMBERS = 3 * POLYGON_CORNERS };

static const char no_room[] = "too many shapes or lights";
static const char not_understood[] = "not understood; see scene.h";

static Vector vector_of(const double *numbers) { return (Vector){numbers[0], numbers[1], numbers[2]}; }

static Shape *new_shape(Scene *scene, Surface surface)
{
    if (scene->shape_count == SCENE_SHAPES)
        return NULL;
    Shape *shape = &scene->shapes[scene->shape_count++];
    shape->surface = surface;
    return shape;
}

static const char *add_polygon(Scene *scene, Surface surface, const double *numbers, int corners)
{
    Shape *shape = new_shape(scene, surface);
    if (!shape)
        return no_room;
    shape->kind = SHAPE_POLYGON;
    shape->polygon = (Polygon){.count = corners};
    for (int index = 0; index < corners; index++)
        shape->polygon.corners[index] = vector_of(numbers + 3 * index);
    return polygon_prepare(&shape->polygon) ? NULL : "the corners are not a flat convex polygon";
}

static const char *add_fence(Scene *scene, Surface surface, const double *numbers)
{
    double y = numbers[1], z = numbers[2], width = numbers[3], top = z + numbers[4];
    int count = (int)numbers[5];
    if (count < 1)
        return not_understood;
    for (int board = 0; board < count; board++) {
        double left = numbers[0] + board * width, right = left + width;
        double corners[] = {left, y, z, right, y, z, right, y, top, left, y, top};
        Surface painted = surface;
        if (board % 2)
            painted.colour = scale(painted.colour, 0.7);
        const char *wrong = add_polygon(scene, painted, corners, 4);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *add_sphere(Scene *scene, Surface surface, const double *numbers)
{
    Shape *shape = new_shape(scene, surface);
    if (!shape)
        return no_room;
    shape->kind = SHAPE_SPHERE;
    shape->sphere = (Sphere){vector_of(numbers), numbers[3]};
    return numbers[3] > 0 ? NULL : "a sphere has a positive radius";
}

static const char *add_light(Scene *scene, const double *numbers)
{
    if (scene->light_count == SCENE_LIGHTS)
        return no_room;
    scene->lights[scene->light_count++] = (Light){vector_of(numbers), numbers[3]};
    return NULL;
}

static const char *add_line(Scene *scene, Surface *surface, const char *word, const double *numbers, int count)
{
    if (strcmp(word, "polygon") == 0 && count >= 9 && count % 3 == 0)
        return add_polygon(scene, *surface, numbers, count / 3);
    if (strcmp(word, "sphere") == 0 && count == 4)
        return add_sphere(scene, *surface, numbers);
    if (strcmp(word, "fence") == 0 && count == 6)
        return add_fence(scene, *surface, numbers);
    if (strcmp(word, "light") == 0 && count == 4)
        return add_light(scene, numbers);
    if (strcmp(word, "surface") == 0 && count == 4)
        *surface = (Surface){vector_of(numbers), numbers[3]};
    else if (strcmp(word, "sky") == 0 && count == 3)
        scene->sky = vector_of(numbers);
    else if (strcmp(word, "travel") == 0 && count == 3)
        scene->camera.travel = vector_of(numbers);
    else if (strcmp(word, "camera") == 0 && count == 7)
        scene->camera = (Camera){.eye = vector_of(numbers), .target = vector_of(numbers + 3), .angle = numbers[6]};
    else
        return not_understood;
    return NULL;
}

const char *scene_read(FILE *in, Scene *scene, unsigned *line)
{
    char text[LINE_SIZE];
    Surface surface = {{1, 1, 1}, 0};
    memset(scene, 0, sizeof *scene);
    for (*line = 1; fgets(text, sizeof text, in); ++*line) {
        text[strcspn(text, "#\n")] = '\0';
        char *rest;
        char *word = strtok_r(text, " ", &rest);
        if (!word)
            continue;
        double numbers[MOST_NUMBERS];
        int count = 0;
        for (char *next; (next = strtok_r(NULL, " ", &rest));) {
            char *end;
            if (count == MOST_NUMBERS)
                return not_understood;
            numbers[count++] = strtod(next, &end);
            if (*end != '\0')
                return not_understood;
        }
        const char *wrong = add_line(scene, &surface, word, numbers, count);
        if (wrong)
            return wrong;
    }
    return scene->camera.angle > 0 ? NULL : "the scene has no camera";
}
