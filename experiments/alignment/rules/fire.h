#ifndef FIRE_H
#define FIRE_H

#include "network.h"

/* Fires rules until no match is left on the agenda; returns how many fired. */
unsigned fire_all(Network *network, FILE *out);

#endif
