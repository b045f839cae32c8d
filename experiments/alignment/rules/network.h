/* The network of Rete (Forgy 1982; after Doorenbos 1995, chapter 2): what matches which condition is kept, and a fact
 * that comes or goes is held only against what it can change.
 *
 * An alpha memory holds the facts that pass one condition's tests by themselves; conditions with the same tests share
 * one. Each rule has a chain of nodes, one a condition, and a last one for whole matches. A node holds tokens: matches
 * of all conditions before its own, which it joins with the facts of its alpha memory, or passes on while there is no
 * such fact (a negative node).
 */
#ifndef NETWORK_H
#define NETWORK_H

#include <stdbool.h>

#include "value.h"

enum { MOST_SLOTS = 5, MOST_CONDITIONS = 4, MOST_ACTIONS = 4, MOST_TESTS = 5, MOST_RULES = 32, MOST_ALPHAS = 64 };

typedef struct Fact Fact;
typedef struct Token Token;
typedef struct Node Node;
typedef struct AlphaMemory AlphaMemory;

typedef enum { EQUAL, DIFFERENT, LESS, MORE } Relation;

/* A slot of the fact, held against a constant. */
typedef struct {
    int slot;
    Relation relation;
    Value value;
} AlphaTest;

/* A slot of the fact, held against a slot of the fact that an earlier condition matched. */
typedef struct {
    int slot;
    Relation relation;
    int condition;
    int other_slot;
} JoinTest;

/* A fact's place in an alpha memory. */
typedef struct AlphaItem {
    Fact *fact;
    AlphaMemory *memory;
    struct AlphaItem *next, *previous; /* in the memory */
    struct AlphaItem *next_of_fact;
} AlphaItem;

struct AlphaMemory {
    Value class;
    int slot_count, test_count;
    AlphaTest tests[MOST_TESTS];
    AlphaItem *items;
    Node *nodes; /* those of later conditions of a rule before those of earlier ones */
};

struct Fact {
    Value class;
    int slot_count;
    Value slots[MOST_SLOTS];
    bool retracted;
    AlphaItem *items;
    Token *tokens;      /* whose last condition it matched */
    Fact *next_retired; /* retracted while a rule fires */
};

typedef struct Rule Rule;

struct Node {
    AlphaMemory *alpha; /* NULL: the last node of a rule */
    bool negative;
    int position; /* of its condition in the rule, from 0 */
    int test_count;
    JoinTest tests[MOST_TESTS];
    Token *tokens;
    Node *child;
    Node *next_in_alpha;
    Rule *rule;
};

struct Token {
    Fact *facts[MOST_CONDITIONS]; /* NULL at negative conditions */
    Node *node;
    Token *parent, *children, *next_sibling, *previous_sibling;
    Token *next_in_node, *previous_in_node;
    Token *next_of_fact, *previous_of_fact;
    Token *next_freed;
    int blockers;   /* in a negative node: facts that keep it from being passed on */
    bool on_agenda; /* in a last node */
    Token *next_on_agenda, *previous_on_agenda;
};

/* An expression of an action: a constant, a slot of a matched fact, or the sum of two such, or their difference. */
typedef struct {
    int condition; /* -1: a constant */
    int slot;
    Value value;
} Term;

typedef struct {
    char operator; /* '+', '-', or 0: the left term alone */
    Term left, right;
} Expression;

typedef struct {
    enum { ACTION_ASSERT, ACTION_RETRACT, ACTION_PRINT } kind;
    Value class;   /* assert */
    int condition; /* retract */
    int count;
    Expression values[MOST_SLOTS]; /* assert, print */
} Action;

struct Rule {
    Value name;
    int salience;
    int condition_count, action_count;
    Node nodes[MOST_CONDITIONS + 1];
    Action actions[MOST_ACTIONS];
};

typedef struct {
    Rule rules[MOST_RULES];
    int rule_count;
    AlphaMemory alphas[MOST_ALPHAS];
    int alpha_count;
    Fact *retired;
} Network;

/* Adds a fact, and everything that it completes. One that meets no condition by itself is not kept: no rule could ever
 * reach it. */
void network_assert(Network *network, Value class, int slot_count, const Value *slots);

/* Takes a fact away, everything that it was part of, and what it kept from matching is matched. The fact lies with the
 * retired ones until network_free_retired. */
void network_retract(Network *network, Fact *fact);

void network_free_retired(Network *network);

#endif
