#include "fire.h"

#include <string.h>

#include "agenda.h"

static Value term_value(const Term *term, Fact *const *facts)
{
    return term->condition < 0 ? term->value : facts[term->condition]->slots[term->slot];
}

static Value expression_value(const Expression *expression, Fact *const *facts)
{
    Value left = term_value(&expression->left, facts);
    if (!expression->operator)
        return left;
    int64_t a = value_number(left), b = value_number(term_value(&expression->right, facts));
    return value_of_number(expression->operator == '+' ? a + b : a - b);
}

static void carry_out(Network *network, const Action *action, Fact *const *facts, FILE *out)
{
    Value values[MOST_SLOTS];
    for (int index = 0; index < action->count; index++)
        values[index] = expression_value(&action->values[index], facts);
    switch (action->kind) {
    case ACTION_ASSERT:
        network_assert(network, action->class, action->count, values);
        break;
    case ACTION_RETRACT:
        network_retract(network, facts[action->condition]);
        break;
    case ACTION_PRINT:
        for (int index = 0; index < action->count; index++) {
            value_print(values[index], out);
            fputc(index + 1 < action->count ? ' ' : '\n', out);
        }
        break;
    }
}

/* The match itself may vanish with the first fact that is retracted; its facts lie with the retired ones until the
 * end. */
static void fire(Network *network, const Token *match, FILE *out)
{
    const Rule *rule = match->node->rule;
    Fact *facts[MOST_CONDITIONS];
    memcpy(facts, match->facts, sizeof facts);
    for (int index = 0; index < rule->action_count; index++)
        carry_out(network, &rule->actions[index], facts, out);
    network_free_retired(network);
}

unsigned fire_all(Network *network, FILE *out)
{
    unsigned fired = 0;
    for (Token *match; (match = agenda_take()); fired++)
        fire(network, match, out);
    return fired;
}
