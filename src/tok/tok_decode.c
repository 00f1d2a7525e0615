/* SPDX-License-Identifier: MIT */
/* Ids to text. */
#include "tok/vocab.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

/* Bytes written with a limit, the full length counted. */
struct sink {
    char *buf;
    size_t cap, n;
};

static void put(struct sink *s, const char *p, size_t n)
{
    if (s->n < s->cap) memcpy(s->buf + s->n, p, n < s->cap - s->n ? n : s->cap - s->n);
    s->n += n;
}

/* A text in the byte alphabet; what is not in it stays as it is. */
static void put_alphabet(struct sink *s, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned len = sm_utf8_length(p + i, n - i, true);
        const int b = len > 0 ? sm_alphabet_byte(sm_utf8_get(p + i, &len)) : -1;
        const char byte = (char)b;
        if (len == 0) len = 1;
        if (b >= 0) put(s, &byte, 1);
        else put(s, (const char *)p + i, len);
        i += len;
    }
}

static void put_spaces(struct sink *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        const bool space = n - i >= 3 && !memcmp(p + i, "\xe2\x96\x81", 3);
        put(s, space ? " " : p + i, 1);
        i += space ? 3 : 1;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "<0xHH>"; any other text of a byte token is printed as it is. */
static void put_byte(struct sink *s, const char *p, size_t n)
{
    const int hi = n == 6 && !memcmp(p, "<0x", 3) && p[5] == '>' ? hex_digit(p[3]) : -1;
    const int lo = hi >= 0 ? hex_digit(p[4]) : -1;
    const char byte = (char)(hi * 16 + lo);
    if (hi >= 0 && lo >= 0) put(s, &byte, 1);
    else put(s, p, n);
}

size_t sm_tok_piece(const struct sm_tok *t, int32_t id, bool special, char *buf, size_t cap)
{
    struct sink s = {buf, cap, 0};
    if (id < 0 || (uint32_t)id >= t->n_vocab) return 0;
    uint32_t n;
    const char *text = sm_vocab_text(t, (uint32_t)id, &n);
    switch (sm_vocab_type(t, (uint32_t)id)) {
    case SM_TOK_CONTROL:
    case SM_TOK_UNKNOWN:
        if (special) put(&s, text, n);
        break;
    case SM_TOK_USER: put(&s, text, n); break;
    case SM_TOK_UNUSED: break;
    case SM_TOK_BYTE: put_byte(&s, text, n); break;
    default:
        if (t->spm) put_spaces(&s, text, n);
        else put_alphabet(&s, (const uint8_t *)text, n);
    }
    return s.n;
}

void sm_tok_stream_init(struct sm_tok_stream *s, const struct sm_tok *t, bool special)
{
    *s = (struct sm_tok_stream){.tok = t, .special = special};
}

/* Copy what is whole, replace what can never become whole, hold what may. */
static size_t put_whole(struct sm_tok_stream *s, const uint8_t *p, size_t n, char *buf)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        const unsigned len = sm_utf8_length(p + i, n - i, false);
        if (len > 0) {
            memcpy(buf + used, p + i, len);
            used += len;
            i += len;
            continue;
        }
        bool more;
        const unsigned bad = sm_utf8_prefix(p + i, n - i, &more);
        if (more) {
            memcpy(s->held, p + i, bad);
            s->n_held = bad;
            break;
        }
        memcpy(buf + used, REPLACEMENT, 3);
        used += 3;
        i += bad;
    }
    return used;
}

size_t sm_tok_stream_put(struct sm_tok_stream *s, int32_t id, char *buf)
{
    char bytes[SM_TOK_BYTES_MAX + sizeof s->held];
    memcpy(bytes, s->held, s->n_held);
    char *piece = bytes + s->n_held;
    size_t n = sm_tok_piece(s->tok, id, s->special, piece, SM_TOK_BYTES_MAX);
    if (!s->begun && s->tok->add_space && n > 0 && piece[0] == ' ' &&
        sm_vocab_type(s->tok, (uint32_t)id) == SM_TOK_NORMAL) {
        n--;
        memmove(piece, piece + 1, n);
    }
    s->begun = true;
    n += s->n_held;
    s->n_held = 0;
    return put_whole(s, (const uint8_t *)bytes, n, buf);
}

size_t sm_tok_stream_end(struct sm_tok_stream *s, char *buf)
{
    if (s->n_held == 0) return 0;
    s->n_held = 0;
    memcpy(buf, REPLACEMENT, 3);
    return 3;
}
