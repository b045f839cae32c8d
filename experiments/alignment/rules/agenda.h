/* The agenda: whole matches whose rules have not fired. Higher salience first, and the latest match first among
 * equals. */
#ifndef AGENDA_H
#define AGENDA_H

#include "network.h"

void agenda_add(Token *match);
void agenda_remove(Token *match);

/* Takes the next match off the agenda; NULL when it is empty. */
Token *agenda_take(void);

#endif
