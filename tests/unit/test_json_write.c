/* SPDX-License-Identifier: MIT */
/* The JSON writer: escapes, bytes that are no UTF-8, numbers that JSON has not, a full disk. */
#include "lib/json.h"

#include "tap.h"

#include <math.h>

static void write_all(struct sm_json *j)
{
    sm_json_open(j, NULL, '{');
    sm_json_str(j, "text", "a\"b\\c\n\t\x01 \xc3\xa9");
    sm_json_bytes(j, "bad utf-8", "x\xff\xc3(\xed\xa0\x80", 7);
    sm_json_str(j, "none", NULL);
    sm_json_int(j, "int", -5);
    sm_json_uint(j, "uint", UINT64_MAX);
    sm_json_num(j, "tenth", 0.1);
    sm_json_num(j, "inf", (double)INFINITY);
    sm_json_bool(j, "yes", true);
    sm_json_open(j, "list", '[');
    sm_json_int(j, NULL, 1);
    sm_json_int(j, NULL, 2);
    sm_json_close(j);
    sm_json_open(j, "empty", '{');
    sm_json_close(j);
    sm_json_close(j);
}

static void check(bool pretty, const char *want, const char *name)
{
    char found[1024] = "";
    FILE *f = fmemopen(found, sizeof found, "w");
    struct sm_json j;
    sm_json_begin(&j, f, pretty);
    write_all(&j);
    TAP_OK(sm_json_end(&j), "%s: written", name);
    (void)fclose(f);
    TAP_IS_STR(found, want, name);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
#define BAD "x\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
    check(false,
          "{\"text\":\"a\\\"b\\\\c\\n\\t\\u0001 \xc3\xa9\",\"bad utf-8\":\"" BAD "\",\"none\":null,"
          "\"int\":-5,\"uint\":18446744073709551615,\"tenth\":0.1,\"inf\":null,\"yes\":true,"
          "\"list\":[1,2],\"empty\":{}}\n",
          "compact");
    check(true,
          "{\n  \"text\": \"a\\\"b\\\\c\\n\\t\\u0001 \xc3\xa9\",\n  \"bad utf-8\": \"" BAD "\",\n"
          "  \"none\": null,\n  \"int\": -5,\n  \"uint\": 18446744073709551615,\n"
          "  \"tenth\": 0.1,\n  \"inf\": null,\n  \"yes\": true,\n  \"list\": [1, 2],\n"
          "  \"empty\": {}\n}\n",
          "pretty");

    FILE *full = fopen("/dev/full", "w");
    if (full) {
        struct sm_json j;
        sm_json_begin(&j, full, false);
        write_all(&j);
        TAP_OK(!sm_json_end(&j), "a full disk is noticed");
        (void)fclose(full);
    } else {
        TAP_SKIP(1, "no /dev/full");
    }
    return tap_done();
}
