#include "render.h"

#include "trace.h"

/* Where a ray leaves the eye: the middle of the picture, and one step to the right and up, all at distance 1. */
typedef struct {
    Vector eye, middle, right, up;
} View;

static View view_of(const Camera *camera, int height)
{
    const double radians = acos(-1) / 180;
    Vector forward = unit(subtract(camera->target, camera->eye));
    Vector right = unit(cross(forward, (Vector){0, 0, 1}));
    double step = 2 * tan(camera->angle * radians / 2) / height;
    return (View){camera->eye, forward, scale(right, step), scale(cross(right, forward), step)};
}

static int level(double light) { return light >= 1 ? 255 : (int)(256 * sqrt(light) * 0.999); }

static void render_pixel(const Scene *scene, const View *view, double x, double y, FILE *out)
{
    Vector direction = add(view->middle, add(scale(view->right, x), scale(view->up, y)));
    Vector colour = trace_ray(scene, &(Ray){view->eye, unit(direction)});
    putc_unlocked(level(colour.x), out);
    putc_unlocked(level(colour.y), out);
    putc_unlocked(level(colour.z), out);
}

static void render_picture(const Scene *scene, const Camera *camera, int width, int height, FILE *out)
{
    View view = view_of(camera, height);
    fprintf(out, "P6\n%d %d\n255\n", width, height);
    for (int row = 0; row < height; row++) {
        for (int column = 0; column < width; column++)
            render_pixel(scene, &view, column + 0.5 - width / 2.0, height / 2.0 - row - 0.5, out);
    }
}

void render_film(const Scene *scene, int width, int height, int pictures, FILE *out)
{
    for (int picture = 0; picture < pictures; picture++) {
        Camera camera = scene->camera;
        Vector moved = scale(camera.travel, (double)picture / pictures);
        camera.eye = add(camera.eye, moved);
        camera.target = add(camera.target, moved);
        render_picture(scene, &camera, width, height, out);
    }
}
