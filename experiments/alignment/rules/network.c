#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "token.h"

static bool passes(const AlphaMemory *memory, const Fact *fact)
{
    if (memory->class != fact->class || memory->slot_count != fact->slot_count)
        return false;
    for (int index = 0; index < memory->test_count; index++) {
        const AlphaTest *test = &memory->tests[index];
        if ((fact->slots[test->slot] == test->value) != (test->relation == EQUAL))
            return false;
    }
    return true;
}

static void remember(AlphaMemory *memory, Fact *fact)
{
    AlphaItem *item = allocate(sizeof *item);
    *item = (AlphaItem){.fact = fact, .memory = memory, .next = memory->items, .next_of_fact = fact->items};
    if (memory->items)
        memory->items->previous = item;
    memory->items = item;
    fact->items = item;
}

static void forget(AlphaItem *item)
{
    if (item->next)
        item->next->previous = item->previous;
    *(item->previous ? &item->previous->next : &item->memory->items) = item->next;
}

/* A fact has come into a node's alpha memory. */
static void join_fact(Node *node, Fact *fact)
{
    for (Token *token = node->tokens; token; token = token->next_in_node) {
        if (!token_joins(node, token, fact))
            continue;
        if (!node->negative)
            token_add(node->child, token, fact);
        else if (token->blockers++ == 0)
            token_delete_children(token);
    }
}

void network_assert(Network *network, Value class, int slot_count, const Value *slots)
{
    Fact *fact = allocate(sizeof *fact);
    fact->class = class;
    fact->slot_count = slot_count;
    memcpy(fact->slots, slots, (size_t)slot_count * sizeof *slots);
    for (AlphaMemory *memory = network->alphas; memory < network->alphas + network->alpha_count; memory++) {
        if (!passes(memory, fact))
            continue;
        remember(memory, fact);
        for (Node *node = memory->nodes; node; node = node->next_in_alpha)
            join_fact(node, fact);
    }
    if (!fact->items)
        free(fact);
}

/* Puts the tokens that a fact alone kept from being passed on into a list. */
static Token *unblock(const Node *node, const Fact *fact, Token *freed)
{
    for (Token *token = node->tokens; token; token = token->next_in_node) {
        if (token_joins(node, token, fact) && --token->blockers == 0) {
            token->next_freed = freed;
            freed = token;
        }
    }
    return freed;
}

void network_retract(Network *network, Fact *fact)
{
    if (fact->retracted)
        return;
    fact->retracted = true;
    fact->next_retired = network->retired;
    network->retired = fact;
    while (fact->tokens)
        token_delete(fact->tokens);
    for (AlphaItem *item = fact->items; item; item = item->next_of_fact)
        forget(item);
    /* First all counts, then all that follows: else a token that is made on the way would be counted down for a fact
     * that it never met. */
    Token *freed = NULL;
    for (AlphaItem *item = fact->items; item; item = item->next_of_fact) {
        for (Node *node = item->memory->nodes; node; node = node->next_in_alpha) {
            if (node->negative)
                freed = unblock(node, fact, freed);
        }
    }
    for (; freed; freed = freed->next_freed)
        token_add(freed->node->child, freed, NULL);
}

void network_free_retired(Network *network)
{
    while (network->retired) {
        Fact *fact = network->retired;
        network->retired = fact->next_retired;
        while (fact->items) {
            AlphaItem *item = fact->items;
            fact->items = item->next_of_fact;
            free(item);
        }
        free(fact);
    }
}
