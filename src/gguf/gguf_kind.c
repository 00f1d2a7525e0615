/* SPDX-License-Identifier: MIT */
/* Files that are not GGUF, named for what they are: half of all "broken models" are a web page, a
 * pointer file or an unfinished download. */
#include "base/bits.h"
#include "gguf/gguf_int.h"

#include <inttypes.h>
#include <stdio.h>

struct magic {
    uint16_t at;
    uint8_t n;
    const char *bytes;
    const char *text;
};

#define MAGIC(at, bytes, text) {at, sizeof(bytes) - 1, bytes, text}

/* The oldest formats of the family store their four letters as a little-endian number. */
static const struct magic magics[] = {
    MAGIC(0, "version https://git-lfs",
          "is a Git LFS pointer file, not the model itself: fetch the real file (git lfs pull)"),
    MAGIC(0, SM_PACK_UNFINISHED,
          "is an unfinished pack: the command that began it, given again, finishes it"),
    MAGIC(0, SM_PACK_FREED,
          "was partly freed by smol pack --in-place: that command, given again, "
          "finishes the pack"),
    MAGIC(0, "lmgg", "is a model in the old GGML format (before GGUF): convert it again"),
    MAGIC(0, "fmgg", "is a model in the old GGMF format (before GGUF): convert it again"),
    MAGIC(0, "tjgg", "is a model in the old GGJT format (before GGUF): convert it again"),
    MAGIC(0, "algg", "is a LoRA adapter in the old GGLA format (before GGUF)"),
    MAGIC(0, "nsgg", "is a saved session of another program (GGSN), not a model"),
    MAGIC(0, "FUGG", "has its magic backwards: it looks like a GGUF file of the other byte order"),
    MAGIC(0, "PK\3\4", "is a zip archive, for example PyTorch weights: convert it to GGUF"),
    MAGIC(0, "PK\5\6", "is an empty zip archive"),
    MAGIC(0, "\x80\2", "is a Python pickle, for example old PyTorch weights: convert it to GGUF"),
    MAGIC(0, "\x80\3", "is a Python pickle, for example old PyTorch weights: convert it to GGUF"),
    MAGIC(0, "\x80\4", "is a Python pickle, for example old PyTorch weights: convert it to GGUF"),
    MAGIC(0, "\x1f\x8b", "is compressed with gzip: unpack it first"),
    MAGIC(0, "\xfd" "7zXZ", "is compressed with xz: unpack it first"),
    MAGIC(0, "\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it first"),
    MAGIC(0, "\x04\x22\x4d\x18", "is compressed with lz4: unpack it first"),
    MAGIC(0, "BZh", "is compressed with bzip2: unpack it first"),
    MAGIC(0, "7z\xbc\xaf\x27\x1c", "is a 7-zip archive: unpack it first"),
    MAGIC(0, "Rar!", "is a RAR archive: unpack it first"),
    MAGIC(257, "ustar", "is a tar archive: unpack it first"),
    MAGIC(0, "\x7f" "ELF", "is an ELF program or library"),
    MAGIC(0, "MZ", "is a Windows program"),
    MAGIC(0, "\xcf\xfa\xed\xfe", "is a macOS program"),
    MAGIC(0, "%PDF", "is a PDF document"),
    MAGIC(0, "\x89PNG", "is a PNG picture"),
    MAGIC(0, "\xff\xd8\xff", "is a JPEG picture"),
    MAGIC(0, "\x89HDF", "is an HDF5 file, for example Keras weights: convert it to GGUF"),
    MAGIC(0, "\x93NUMPY", "is a NumPy array"),
    MAGIC(4, "TFL3", "is a TensorFlow Lite model: only GGUF is read"),
    MAGIC(0, "SQLite format 3", "is an SQLite database"),
};

static bool begins_nocase(const uint8_t *p, size_t n, const char *with)
{
    for (size_t i = 0; with[i]; i++) {
        if (i >= n) return false;
        const uint8_t c = (uint8_t)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]);
        if (c != (uint8_t)with[i]) return false;
    }
    return true;
}

/* Text: no control characters but tab, line ends and form feed. */
static bool is_text(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] == 0x7f || (p[i] < 0x20 && !(p[i] >= 9 && p[i] <= 13))) return false;
    return n > 0;
}

static const char *text_kind(const uint8_t *p, size_t n)
{
    if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3, n -= 3;
    while (n && (*p == ' ' || (*p >= 9 && *p <= 13))) p++, n--;
    if (begins_nocase(p, n, "<!doctype html") || begins_nocase(p, n, "<html") ||
        begins_nocase(p, n, "<head") || begins_nocase(p, n, "<body"))
        return "is a web page (HTML), not a model: the download gave a page instead of the file";
    if (begins_nocase(p, n, "<?xml") || begins_nocase(p, n, "<error"))
        return "is an XML text, not a model: the download may have given an error message";
    if (n && (*p == '{' || *p == '[')) return "is a JSON text, not a model";
    if (n >= 2 && p[0] == '#' && p[1] == '!') return "is a script, not a model";
    return "is a plain text file, not a model";
}

const char *sm_gguf_kind(const uint8_t *first, size_t n, uint64_t file_bytes, char *buf,
                         size_t buf_bytes)
{
    if (file_bytes == 0) return "is empty (0 bytes)";
    size_t zeros = 0;
    while (zeros < n && first[zeros] == 0) zeros++;
    if (zeros == n && n >= 4)
        return "begins with nothing but zero bytes: an unfinished download or copy";
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const struct magic *m = &magics[i];
        if (n >= (size_t)m->at + m->n && !memcmp(first + m->at, m->bytes, m->n)) return m->text;
    }
    if (n > 9 && first[8] == '{' && sm_ld64(first) <= file_bytes - 8 && sm_ld64(first) > 1)
        return "is in the safetensors format: convert it to GGUF";
    if (n >= 4 && is_text(first, n)) return text_kind(first, n);
    if (n < 4) {
        (void)snprintf(buf, buf_bytes,
                       "is only %" PRIu64 " byte%s long: a GGUF file has 24 at least", file_bytes,
                       file_bytes == 1 ? "" : "s");
        return buf;
    }
    (void)snprintf(buf, buf_bytes,
                   "is not a GGUF file: expected the bytes 47 47 55 46 (\"GGUF\") at byte 0, found "
                   "%02x %02x %02x %02x",
                   first[0], first[1], first[2], first[3]);
    return buf;
}
