#ifndef TOKEN_H
#define TOKEN_H

#include "network.h"

/* Tells whether a fact passes a node's tests together with a token. */
bool token_joins(const Node *node, const Token *token, const Fact *fact);

/* Adds a token to a node, and all that follow from it. Without a parent it is the empty match, with which every rule
 * begins. */
void token_add(Node *node, Token *parent, Fact *fact);

/* Deletes a token and all that follow from it. */
void token_delete(Token *token);

void token_delete_children(Token *token);

/* Memory, or the end of the program. */
void *allocate(size_t size);

#endif
