#include "token.h"

#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "value.h"

void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory) {
        fputs("rules: not enough memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static inline bool compare_values(Value left, Relation relation, Value right)
{
    switch (relation) {
    case EQUAL:
        return left == right;
    case DIFFERENT:
        return left != right;
    case LESS:
        return left < right;
    case MORE:
        return left > right;
    }
    abort();
}

bool token_joins(const Node *node, const Token *token, const Fact *fact)
{
    for (const JoinTest *test = node->tests; test < node->tests + node->test_count; test++) {
        if (!compare_values(fact->slots[test->slot], test->relation,
                            token->facts[test->condition]->slots[test->other_slot]))
            return false;
    }
    return true;
}

static Token *new_token(Node *node, Token *parent, Fact *fact)
{
    Token *token = allocate(sizeof *token);
    token->node = node;
    token->parent = parent;
    if ((token->next_in_node = node->tokens))
        node->tokens->previous_in_node = token;
    node->tokens = token;
    if (!parent)
        return token;
    memcpy(token->facts, parent->facts, sizeof token->facts);
    token->facts[node->position - 1] = fact;
    if ((token->next_sibling = parent->children))
        parent->children->previous_sibling = token;
    parent->children = token;
    if (fact) {
        if ((token->next_of_fact = fact->tokens))
            fact->tokens->previous_of_fact = token;
        fact->tokens = token;
    }
    return token;
}

void token_add(Node *node, Token *parent, Fact *fact)
{
    Token *token = new_token(node, parent, fact);
    if (!node->alpha) {
        agenda_add(token);
        return;
    }
    for (AlphaItem *item = node->alpha->items; item; item = item->next) {
        if (!token_joins(node, token, item->fact))
            continue;
        if (node->negative)
            token->blockers++;
        else
            token_add(node->child, token, item->fact);
    }
    if (node->negative && token->blockers == 0)
        token_add(node->child, token, NULL);
}

static void unlink_token(Token *token)
{
    if (token->next_in_node)
        token->next_in_node->previous_in_node = token->previous_in_node;
    *(token->previous_in_node ? &token->previous_in_node->next_in_node : &token->node->tokens) = token->next_in_node;
    if (token->next_sibling)
        token->next_sibling->previous_sibling = token->previous_sibling;
    if (token->previous_sibling)
        token->previous_sibling->next_sibling = token->next_sibling;
    else if (token->parent)
        token->parent->children = token->next_sibling;
    Fact *fact = token->parent ? token->facts[token->node->position - 1] : NULL;
    if (token->next_of_fact)
        token->next_of_fact->previous_of_fact = token->previous_of_fact;
    if (token->previous_of_fact)
        token->previous_of_fact->next_of_fact = token->next_of_fact;
    else if (fact)
        fact->tokens = token->next_of_fact;
}

void token_delete_children(Token *token)
{
    while (token->children)
        token_delete(token->children);
}

void token_delete(Token *token)
{
    token_delete_children(token);
    if (token->on_agenda)
        agenda_remove(token);
    unlink_token(token);
    free(token);
}
