/* SPDX-License-Identifier: MIT */
/* Tests: value is name(arguments). */
#include "tok/jinja_int.h"

#include <string.h>

static bool is_whole(const struct sm_jval *v) { return v->type == SM_J_INT; }

static bool simple_test(const char *name, const struct sm_jval *v, bool *out)
{
    const enum sm_jtype t = v->type;
    const bool undefined = t == SM_J_UNDEFINED, space = t == SM_J_DICT && v->u.dict->is_namespace;
    const struct {
        const char *name;
        bool value;
    } known[] = {
        {"defined", !undefined},
        {"undefined", undefined},
        {"none", t == SM_J_NONE},
        {"string", t == SM_J_STR},
        {"mapping", t == SM_J_DICT && !space},
        {"iterable", undefined || t == SM_J_STR || t == SM_J_LIST || (t == SM_J_DICT && !space)},
        {"sequence", undefined || t == SM_J_STR || t == SM_J_LIST || (t == SM_J_DICT && !space)},
        {"boolean", t == SM_J_BOOL},
        {"number", t == SM_J_INT || t == SM_J_FLOAT || t == SM_J_BOOL},
        {"integer", is_whole(v)},
        {"float", t == SM_J_FLOAT},
        {"true", t == SM_J_BOOL && v->u.b},
        {"false", t == SM_J_BOOL && !v->u.b},
        {"callable", t == SM_J_CALL},
        {"odd", is_whole(v) && v->u.i % 2 != 0},
        {"even", is_whole(v) && v->u.i % 2 == 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            *out = known[i].value;
            return true;
        }
    return false;
}

/* Tests that are operators: their sign, 0 when the name is none. */
static int operator_test(const char *name)
{
    static const struct {
        const char *name;
        int op;
    } known[] = {{"eq", SM_JO_EQ},    {"equalto", SM_JO_EQ},
                 {"ne", SM_JO_NE},    {"lt", '<'},
                 {"lessthan", '<'},   {"le", SM_JO_LE},
                 {"gt", '>'},         {"greaterthan", '>'},
                 {"ge", SM_JO_GE},    {"in", SM_JO_IN},
                 {"==", SM_JO_EQ},    {"!=", SM_JO_NE},
                 {"<", '<'},          {">", '>'},
                 {"<=", SM_JO_LE},    {">=", SM_JO_GE},
                 {"sameas", SM_JO_EQ}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].op;
    return 0;
}

smol_status sm_jinja_test(struct sm_jinja *j, const char *name, const struct sm_jval *v,
                          const struct sm_jargs *args, bool *out)
{
    const int op = operator_test(name);
    *out = false;
    SM_TRY(sm_jinja_cost(j, 64)); /* select() runs it for each item */
    if (op) {
        if (args->n != 1) return SM_J_FAIL(j, FORMAT, "the test \"%.40s\" wants one value", name);
        if (!strcmp(name, "sameas") && v->type != args->v[0].type) return SMOL_OK;
        return sm_jinja_compare(j, op, v, &args->v[0], out);
    }
    if (simple_test(name, v, out)) return SMOL_OK;
    if (!strcmp(name, "divisibleby") && is_whole(v) && args->n == 1 && is_whole(&args->v[0]) &&
        args->v[0].u.i > 0) {
        *out = v->u.i % args->v[0].u.i == 0;
        return SMOL_OK;
    }
    return SM_J_FAIL(j, UNSUPPORTED, "the test \"is %.40s\" is not supported", name);
}
