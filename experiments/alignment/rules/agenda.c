#include "agenda.h"

typedef struct {
    int salience;
    Token *first;
} Level;

static Level levels[MOST_RULES]; /* by falling salience */
static int level_count;

static Level *level_of(const Token *match)
{
    int salience = match->node->rule->salience;
    int place = 0;
    while (place < level_count && levels[place].salience > salience)
        place++;
    if (place == level_count || levels[place].salience != salience) {
        for (int moved = level_count++; moved > place; moved--)
            levels[moved] = levels[moved - 1];
        levels[place] = (Level){salience, NULL};
    }
    return &levels[place];
}

void agenda_add(Token *match)
{
    Level *level = level_of(match);
    match->on_agenda = true;
    match->previous_on_agenda = NULL;
    match->next_on_agenda = level->first;
    if (level->first)
        level->first->previous_on_agenda = match;
    level->first = match;
}

void agenda_remove(Token *match)
{
    match->on_agenda = false;
    if (match->next_on_agenda)
        match->next_on_agenda->previous_on_agenda = match->previous_on_agenda;
    if (match->previous_on_agenda)
        match->previous_on_agenda->next_on_agenda = match->next_on_agenda;
    else
        level_of(match)->first = match->next_on_agenda;
}

Token *agenda_take(void)
{
    for (Level *level = levels; level < levels + level_count; level++) {
        Token *match = level->first;
        if (match) {
            agenda_remove(match);
            return match;
        }
    }
    return NULL;
}
