/* raytracer: films a scene of spheres and polygons. See scene.h for the scene's file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "render.h"

enum { EXIT_GOOD = 0, EXIT_SYSTEM = 1, EXIT_USAGE = 2, EXIT_WRONG = 3, MOST_PIXELS = 10000, MOST_PICTURES = 100000 };

/* Large, so that a run makes few system calls. */
static char out_buffer[1 << 20];
static Scene scene;

static int number_of(const char *text, int most)
{
    char *end;
    long number = strtol(text, &end, 10);
    return end != text && *end == '\0' && number >= 1 && number <= most ? (int)number : 0;
}

static int read_scene(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in) {
        fprintf(stderr, "raytracer: %s: %s\n", path, strerror(errno));
        return EXIT_SYSTEM;
    }
    unsigned line;
    const char *wrong = scene_read(in, &scene, &line);
    fclose(in);
    if (wrong)
        fprintf(stderr, "raytracer: %s:%u: %s\n", path, line, wrong);
    return wrong ? EXIT_WRONG : EXIT_GOOD;
}

int main(int argc, char **argv)
{
    int width = argc == 5 ? number_of(argv[2], MOST_PIXELS) : 0;
    int height = argc == 5 ? number_of(argv[3], MOST_PIXELS) : 0;
    int pictures = argc == 5 ? number_of(argv[4], MOST_PICTURES) : 0;
    if (!width || !height || !pictures) {
        fputs("usage: raytracer SCENE WIDTH HEIGHT PICTURES   film the scene to standard output\n", stderr);
        return EXIT_USAGE;
    }
    int code = read_scene(argv[1]);
    if (code != EXIT_GOOD)
        return code;
    setvbuf(stdout, out_buffer, _IOFBF, sizeof out_buffer);
    render_film(&scene, width, height, pictures, stdout);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "raytracer: standard output: %s\n", strerror(errno));
        return EXIT_SYSTEM;
    }
    return EXIT_GOOD;
}
