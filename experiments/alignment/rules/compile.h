#ifndef COMPILE_H
#define COMPILE_H

#include "network.h"
#include "reader.h"

/* Adds a rule to a network that holds no facts yet. NULL when it is right, else what is wrong with it.
 *
 *     (rule NAME SALIENCE  CONDITION …  =>  ACTION …)
 *
 *     condition   (CLASS TERM …)  or  (not (CLASS TERM …))
 *     term        a word or a number; ?x, a variable; ~?x, <?x, >?x: other, less, more than a variable of an earlier
 *                 condition;  ~word: another word;  _ : anything
 *     action      (assert (CLASS VALUE …)),  (retract N) by the condition's number from 1,  (print VALUE …)
 *     value       a word, a number, ?x, (+ V V) or (- V V)
 */
const char *compile_rule(Network *network, const Form *form);

#endif
