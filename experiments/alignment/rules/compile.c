#include "compile.h"

#include <stdlib.h>
#include <string.h>

#include "token.h"

enum { MOST_VARIABLES = 16 };

static const char not_understood[] = "not understood; see compile.h";
static const char too_long[] = "too many rules, conditions, slots, variables or actions";
static const char unknown_variable[] = "a variable that no earlier condition gives a value";

/* Where a variable got its value. */
typedef struct {
    const char *name;
    int condition, slot;
} Variable;

typedef struct {
    Network *network;
    Rule *rule;
    Variable variables[MOST_VARIABLES];
    int variable_count;
} Compiler;

static const Variable *find_variable(const Compiler *compiler, const char *name)
{
    for (int index = 0; index < compiler->variable_count; index++) {
        if (strcmp(compiler->variables[index].name, name) == 0)
            return &compiler->variables[index];
    }
    return NULL;
}

static Relation take_relation(const char **word)
{
    static const char signs[] = "~<>";
    const char *sign = **word ? strchr(signs, **word) : NULL;
    if (!sign || !(*word)[1])
        return EQUAL;
    ++*word;
    return (Relation)(DIFFERENT + (sign - signs));
}

static const char *add_variable(Compiler *compiler, Node *node, Relation relation, const char *name, int slot)
{
    const Variable *known = find_variable(compiler, name);
    if (known && known->condition < node->position) {
        node->tests[node->test_count++] = (JoinTest){slot, relation, known->condition, known->slot};
        return NULL;
    }
    if (known || relation != EQUAL)
        return unknown_variable;
    if (compiler->variable_count == MOST_VARIABLES)
        return too_long;
    if (!node->negative)
        compiler->variables[compiler->variable_count++] = (Variable){name, node->position, slot};
    return NULL;
}

static const char *add_term(Compiler *compiler, Node *node, AlphaMemory *wanted, const char *word)
{
    int slot = wanted->slot_count++;
    if (slot == MOST_SLOTS)
        return too_long;
    if (strcmp(word, "_") == 0)
        return NULL;
    Relation relation = take_relation(&word);
    if (*word == '?')
        return add_variable(compiler, node, relation, word, slot);
    if (relation > DIFFERENT)
        return not_understood;
    wanted->tests[wanted->test_count++] = (AlphaTest){slot, relation, value_of_word(word)};
    return NULL;
}

static bool same_tests(const AlphaMemory *one, const AlphaMemory *other)
{
    if (one->class != other->class || one->slot_count != other->slot_count || one->test_count != other->test_count)
        return false;
    for (int index = 0; index < one->test_count; index++) {
        const AlphaTest *a = &one->tests[index], *b = &other->tests[index];
        if (a->slot != b->slot || a->relation != b->relation || a->value != b->value)
            return false;
    }
    return true;
}

static AlphaMemory *find_alpha(Network *network, const AlphaMemory *wanted)
{
    for (AlphaMemory *memory = network->alphas; memory < network->alphas + network->alpha_count; memory++) {
        if (same_tests(memory, wanted))
            return memory;
    }
    if (network->alpha_count == MOST_ALPHAS)
        return NULL;
    AlphaMemory *memory = &network->alphas[network->alpha_count++];
    *memory = *wanted;
    return memory;
}

static const char *add_condition(Compiler *compiler, const Form *form)
{
    Rule *rule = compiler->rule;
    if (rule->condition_count == MOST_CONDITIONS)
        return too_long;
    Node *node = &rule->nodes[rule->condition_count];
    const Form *head = form->first;
    if (head && head->word && strcmp(head->word, "not") == 0) {
        node->negative = true;
        head = head->next && !head->next->next ? head->next->first : NULL;
    }
    if (!head || !head->word)
        return not_understood;
    AlphaMemory wanted = {.class = value_of_word(head->word)};
    for (const Form *term = head->next; term; term = term->next) {
        const char *wrong = term->word ? add_term(compiler, node, &wanted, term->word) : not_understood;
        if (wrong)
            return wrong;
    }
    node->alpha = find_alpha(compiler->network, &wanted);
    if (!node->alpha)
        return too_long;
    node->next_in_alpha = node->alpha->nodes;
    node->alpha->nodes = node;
    rule->condition_count++;
    return NULL;
}

static const char *make_term(const Compiler *compiler, const Form *form, Term *term)
{
    if (!form || !form->word)
        return not_understood;
    *term = (Term){.condition = -1};
    if (*form->word != '?') {
        term->value = value_of_word(form->word);
        return NULL;
    }
    const Variable *known = find_variable(compiler, form->word);
    if (!known)
        return unknown_variable;
    term->condition = known->condition;
    term->slot = known->slot;
    return NULL;
}

static const char *make_expression(const Compiler *compiler, const Form *form, Expression *expression)
{
    *expression = (Expression){0};
    if (form->word)
        return make_term(compiler, form, &expression->left);
    const Form *sign = form->first;
    if (!sign || !sign->word || strlen(sign->word) != 1 || !strchr("+-", *sign->word) || !sign->next)
        return not_understood;
    expression->operator = *sign->word;
    const char *wrong = make_term(compiler, sign->next, &expression->left);
    return wrong ? wrong : make_term(compiler, sign->next->next, &expression->right);
}

static const char *make_values(const Compiler *compiler, const Form *form, Action *action)
{
    for (; form; form = form->next) {
        if (action->count == MOST_SLOTS)
            return too_long;
        const char *wrong = make_expression(compiler, form, &action->values[action->count++]);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *add_action(Compiler *compiler, const Form *form)
{
    Rule *rule = compiler->rule;
    const Form *head = form->first;
    if (!head || !head->word || !head->next)
        return not_understood;
    if (rule->action_count == MOST_ACTIONS)
        return too_long;
    Action *action = &rule->actions[rule->action_count++];
    *action = (Action){0};
    if (strcmp(head->word, "print") == 0) {
        action->kind = ACTION_PRINT;
        return make_values(compiler, head->next, action);
    }
    if (strcmp(head->word, "retract") == 0 && head->next->word) {
        action->kind = ACTION_RETRACT;
        action->condition = atoi(head->next->word) - 1;
        bool there = action->condition >= 0 && action->condition < rule->condition_count;
        return there && !rule->nodes[action->condition].negative ? NULL : "there is no such condition with a fact";
    }
    const Form *fact = head->next->first;
    if (strcmp(head->word, "assert") != 0 || !fact || !fact->word)
        return not_understood;
    action->kind = ACTION_ASSERT;
    action->class = value_of_word(fact->word);
    return make_values(compiler, fact->next, action);
}

static const char *add_parts(Compiler *compiler, const Form *form)
{
    bool acting = false;
    for (; form; form = form->next) {
        const char *wrong = NULL;
        if (form->word && strcmp(form->word, "=>") == 0)
            acting = true;
        else
            wrong = acting ? add_action(compiler, form) : add_condition(compiler, form);
        if (wrong)
            return wrong;
    }
    return acting ? NULL : not_understood;
}

const char *compile_rule(Network *network, const Form *form)
{
    const Form *name = form->first->next;
    if (!name || !name->word || !name->next || !name->next->word)
        return not_understood;
    if (network->rule_count == MOST_RULES)
        return too_long;
    Rule *rule = &network->rules[network->rule_count++];
    rule->name = value_of_word(name->word);
    rule->salience = atoi(name->next->word);
    for (int position = 0; position <= MOST_CONDITIONS; position++) {
        Node *child = position < MOST_CONDITIONS ? &rule->nodes[position + 1] : NULL;
        rule->nodes[position] = (Node){.position = position, .rule = rule, .child = child};
    }
    Compiler compiler = {.network = network, .rule = rule};
    const char *wrong = add_parts(&compiler, name->next->next);
    if (!wrong)
        token_add(&rule->nodes[0], NULL, NULL);
    return wrong;
}
