/* Insertion of a counting call at the entry of methods in a Java class file (JVM specification, chapter 4).
 *
 * Each chosen method gets 8 bytes at its beginning: push the address of a counter, call a static method, two no-ops. A
 * shift by a multiple of four keeps the padding of the switch instructions, and jumps are relative, so no instruction
 * of the method is read. What refers to the code by absolute position is moved: exception handlers, stack maps, and the
 * tables of lines and local variables. A jump back to the method's first instruction is not an entry and not counted.
 *
 * Runs in the measured program, once for each class of a named method.
 */
#include "class_file.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX 8u /* bytes inserted */
#define LARGEST_CODE 65535u
#define ABSTRACT_OR_NATIVE (0x0400u | 0x0100u)
enum { UTF8 = 1, INTEGER = 3, FLOAT, LONG, DOUBLE, CLASS, STRING, FIELD, METHOD, INTERFACE_METHOD, NAME_AND_TYPE };
enum { METHOD_HANDLE = 15, METHOD_TYPE, DYNAMIC, INVOKE_DYNAMIC, MODULE, PACKAGE };

struct reader {
    const uint8_t *at, *end;
    int bad;
};

struct writer {
    uint8_t *bytes;
    size_t used, room;
    int bad; /* no memory, or a number that does not fit its field */
};

static const uint8_t *take(struct reader *in, size_t count)
{
    static const uint8_t nothing[8]; /* for numbers; larger parts are not read */
    if (in->bad || (size_t)(in->end - in->at) < count) {
        in->bad = 1;
        return nothing;
    }
    in->at += count;
    return in->at - count;
}

static uint32_t take1(struct reader *in) { return *take(in, 1); }

static uint32_t take2(struct reader *in)
{
    const uint8_t *bytes = take(in, 2);
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t take4(struct reader *in)
{
    const uint8_t *bytes = take(in, 4);
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static struct reader part(struct reader *in, size_t count)
{
    const uint8_t *from = take(in, count);
    return (struct reader){from, in->bad ? from : from + count, in->bad};
}

static void put(struct writer *out, const void *bytes, size_t count)
{
    if (out->bad || count == 0)
        return;
    if (out->room - out->used < count) {
        size_t room = 2 * (out->room + count);
        uint8_t *larger = realloc(out->bytes, room);
        if (!larger) {
            out->bad = 1;
            return;
        }
        out->bytes = larger;
        out->room = room;
    }
    memcpy(out->bytes + out->used, bytes, count);
    out->used += count;
}

/* Copies bytes unchanged. */
static void copy(struct reader *in, struct writer *out, size_t count)
{
    const uint8_t *bytes = take(in, count);
    if (!in->bad)
        put(out, bytes, count);
}

static void put1(struct writer *out, uint32_t value) { put(out, &(uint8_t){(uint8_t)value}, 1); }

static void put2(struct writer *out, uint32_t value)
{
    if (value > UINT16_MAX)
        out->bad = 1;
    put(out, (uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

static void put4(struct writer *out, uint32_t value)
{
    put(out, (uint8_t[]){(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value}, 4);
}

static void put_again4(struct writer *out, size_t place, uint32_t value)
{
    if (out->bad)
        return;
    for (int byte = 0; byte < 4; byte++)
        out->bytes[place + (size_t)byte] = (uint8_t)(value >> (24 - 8 * byte));
}

/* Copies what is left of a part, unchanged. */
static void put_rest(struct writer *out, struct reader *in) { put(out, in->at, (size_t)(in->end - in->at)); }

/* Reads the constant pool; `text[i]` is the position of constant i if it is a text, else NULL. The texts are not
 * changed: they stay in the class file. */
static const uint8_t **read_texts(struct reader *in, uint32_t constants)
{
    const uint8_t **text = calloc(constants ? constants : 1, sizeof *text);
    if (!text)
        in->bad = 1;
    for (uint32_t index = 1; index < constants && !in->bad; index++) {
        const uint8_t *constant = in->at;
        switch (take1(in)) {
        case UTF8:
            take(in, take2(in));
            text[index] = constant + 1;
            break;
        case LONG:
        case DOUBLE:
            take(in, 8);
            index++;
            break;
        case INTEGER:
        case FLOAT:
        case FIELD:
        case METHOD:
        case INTERFACE_METHOD:
        case NAME_AND_TYPE:
        case DYNAMIC:
        case INVOKE_DYNAMIC:
            take(in, 4);
            break;
        case CLASS:
        case STRING:
        case METHOD_TYPE:
        case MODULE:
        case PACKAGE:
            take(in, 2);
            break;
        case METHOD_HANDLE:
            take(in, 3);
            break;
        default:
            in->bad = 1;
        }
    }
    return text;
}

struct class_file {
    const uint8_t **text;
    uint32_t constants; /* of the class, before ours */
    struct writer added;
    uint32_t next; /* index of the next constant that is added */
    uint32_t call; /* constant of the counting method; 0 while there is none */
};

static int is_text(const struct class_file *class, uint32_t index, const char *wanted)
{
    const uint8_t *text = index < class->constants ? class->text[index] : NULL;
    size_t length = strlen(wanted);
    return text && ((size_t)text[0] << 8 | text[1]) == length && memcmp(text + 2, wanted, length) == 0;
}

static uint32_t add_text(struct class_file *class, const char *text)
{
    put1(&class->added, UTF8);
    put2(&class->added, (uint32_t)strlen(text));
    put(&class->added, text, strlen(text));
    return class->next++;
}

static uint32_t add_pair(struct class_file *class, uint32_t tag, uint32_t first, uint32_t second)
{
    put1(&class->added, tag);
    put2(&class->added, first);
    put2(&class->added, second);
    return class->next++;
}

static uint32_t add_call(struct class_file *class, const char *owner, const char *method)
{
    uint32_t name = add_text(class, owner);
    put1(&class->added, CLASS);
    put2(&class->added, name);
    uint32_t type = class->next++;
    uint32_t own = add_text(class, method), descriptor = add_text(class, "(J)V");
    return add_pair(class, METHOD, type, add_pair(class, NAME_AND_TYPE, own, descriptor));
}

static uint32_t add_long(struct class_file *class, uint64_t value)
{
    put1(&class->added, LONG);
    put4(&class->added, (uint32_t)(value >> 32));
    put4(&class->added, (uint32_t)value);
    class->next += 2; /* a long takes two */
    return class->next - 2;
}

/* Copies types of a stack map; the position of a `new` whose object is not yet initialised moves with the code. */
static void move_types(struct reader *in, struct writer *out, uint32_t count)
{
    enum { OBJECT = 7, UNINITIALISED = 8 };
    while (count-- && !in->bad) {
        uint32_t tag = take1(in);
        put1(out, tag);
        if (tag == OBJECT)
            put2(out, take2(in));
        else if (tag == UNINITIALISED)
            put2(out, take2(in) + PREFIX);
    }
}

/* Moves a stack map: a frame's position is relative to the one before, so only the first one's number changes. */
static void move_stack_map(struct reader *in, struct writer *out)
{
    enum { SAME_ONE = 64, RESERVED = 128, SAME_ONE_FAR = 247, CHOPPED = 248, SAME_FAR = 251, FULL = 255 };
    uint32_t frames = take2(in), moved = PREFIX;
    put2(out, frames);
    for (uint32_t frame = 0; frame < frames && !in->bad; frame++, moved = 0) {
        uint32_t kind = take1(in);
        if (kind < RESERVED) { /* the position is in the kind */
            uint32_t base = kind < SAME_ONE ? 0 : SAME_ONE, far = kind < SAME_ONE ? SAME_FAR : SAME_ONE_FAR;
            uint32_t offset = kind - base + moved;
            if (offset < SAME_ONE) {
                put1(out, base + offset);
            } else {
                put1(out, far);
                put2(out, offset);
            }
            if (base)
                move_types(in, out, 1);
            continue;
        }
        put1(out, kind);
        put2(out, take2(in) + moved);
        if (kind < SAME_ONE_FAR) {
            in->bad = 1;
        } else if (kind == SAME_ONE_FAR) {
            move_types(in, out, 1);
        } else if (kind == FULL) {
            for (int list = 0; list < 2; list++) { /* local variables, then the stack */
                uint32_t types = take2(in);
                put2(out, types);
                move_types(in, out, types);
            }
        } else if (kind > SAME_FAR) {
            move_types(in, out, kind - SAME_FAR);
        }
    }
}

/* Moves a table whose entries begin with a position, and if `ranges`, a length. What begins at the method's first
 * instruction (parameters, the first line) includes the inserted code. */
static void move_table(struct reader *in, struct writer *out, size_t rest, int ranges)
{
    uint32_t entries = take2(in);
    put2(out, entries);
    while (entries-- && !in->bad) {
        uint32_t start = take2(in);
        put2(out, start ? start + PREFIX : 0);
        if (ranges)
            put2(out, take2(in) + (start ? 0 : PREFIX));
        copy(in, out, rest);
    }
}

/* Copies a Code attribute with the counting call at the beginning. `counter`: constant of the counter's address. */
static void move_code(const struct class_file *class, struct reader *in, struct writer *out, uint32_t counter)
{
    uint32_t stack = take2(in);
    put2(out, stack < 2 ? 2 : stack);
    put2(out, take2(in));
    uint32_t length = take4(in);
    if (length > LARGEST_CODE - PREFIX)
        out->bad = 1;
    put4(out, length + PREFIX);
    enum { LDC2_W = 0x14, INVOKESTATIC = 0xb8 };
    put1(out, LDC2_W);
    put2(out, counter);
    put1(out, INVOKESTATIC);
    put2(out, class->call);
    put2(out, 0); /* two no-ops */
    copy(in, out, length);
    uint32_t handlers = take2(in);
    put2(out, handlers);
    while (handlers-- && !in->bad) {
        for (int position = 0; position < 3; position++)
            put2(out, take2(in) + PREFIX);
        put2(out, take2(in));
    }
    uint32_t attributes = take2(in);
    put2(out, attributes);
    while (attributes-- && !in->bad) {
        uint32_t name = take2(in);
        put2(out, name);
        struct reader inner = part(in, take4(in));
        size_t place = out->used;
        put4(out, 0);
        if (is_text(class, name, "StackMapTable"))
            move_stack_map(&inner, out);
        else if (is_text(class, name, "LineNumberTable"))
            move_table(&inner, out, 2, 0);
        else if (is_text(class, name, "LocalVariableTable") || is_text(class, name, "LocalVariableTypeTable"))
            move_table(&inner, out, 6, 1);
        else
            put_rest(out, &inner);
        in->bad |= inner.bad;
        put_again4(out, place, (uint32_t)(out->used - place - 4));
    }
}

static void copy_attributes(struct reader *in, struct writer *out)
{
    uint32_t attributes = take2(in);
    put2(out, attributes);
    while (attributes-- && !in->bad) {
        put2(out, take2(in));
        struct reader inner = part(in, take4(in));
        put4(out, (uint32_t)(inner.end - inner.at));
        put_rest(out, &inner);
    }
}

/* Copies a method. The address of its counter becomes a constant if the method is counted. */
static void copy_method(struct class_file *class, struct reader *in, struct writer *out,
                        const struct unperturbed_counting *how, unsigned *counted)
{
    uint32_t flags = take2(in), name = take2(in);
    put2(out, flags);
    put2(out, name);
    put2(out, take2(in));
    const uint8_t *text = name < class->constants ? class->text[name] : NULL;
    uint64_t *counter = NULL;
    if (text && !(flags & ABSTRACT_OR_NATIVE))
        counter = how->counter_of((const char *)text + 2, (size_t)text[0] << 8 | text[1], how->data);
    if (!counter) {
        copy_attributes(in, out);
        return;
    }
    if (!class->call)
        class->call = add_call(class, how->owner, how->method);
    uint32_t address = add_long(class, (uint64_t)(uintptr_t)counter), attributes = take2(in);
    put2(out, attributes);
    while (attributes-- && !in->bad) {
        uint32_t attribute = take2(in);
        put2(out, attribute);
        struct reader inner = part(in, take4(in));
        size_t place = out->used;
        put4(out, 0);
        if (is_text(class, attribute, "Code")) {
            move_code(class, &inner, out, address);
            ++*counted;
        } else {
            put_rest(out, &inner);
        }
        in->bad |= inner.bad;
        put_again4(out, place, (uint32_t)(out->used - place - 4));
    }
}

int unperturbed_count_methods(const uint8_t *bytes, size_t length, const struct unperturbed_counting *how,
                              uint8_t **rewritten, size_t *rewritten_length)
{
    struct reader in = {bytes, bytes + length, 0};
    take(&in, 8); /* magic number, version */
    uint32_t constants = take2(&in);
    const uint8_t *pool = in.at;
    struct class_file class = {read_texts(&in, constants), constants, {0}, constants, 0};
    struct writer rest = {0};
    const uint8_t *after = in.at;
    take(&in, 6);                      /* flags, this class, its superclass */
    take(&in, 2 * (size_t)take2(&in)); /* interfaces */
    put(&rest, after, (size_t)(in.at - after));
    uint32_t fields = take2(&in);
    put2(&rest, fields);
    while (fields-- && !in.bad) {
        copy(&in, &rest, 6);
        copy_attributes(&in, &rest);
    }
    uint32_t methods = take2(&in);
    unsigned counted = 0;
    put2(&rest, methods);
    while (methods-- && !in.bad)
        copy_method(&class, &in, &rest, how, &counted);
    put_rest(&rest, &in);
    struct writer out = {.bad = in.bad || rest.bad || class.added.bad};
    put(&out, bytes, 8);
    put2(&out, class.next);
    put(&out, pool, (size_t)(after - pool));
    put(&out, class.added.bytes, class.added.used);
    put(&out, rest.bytes, rest.used);
    int result = out.bad ? -1 : (int)counted;
    free(class.text);
    free(class.added.bytes);
    free(rest.bytes);
    if (result > 0) {
        *rewritten = out.bytes;
        *rewritten_length = out.used;
    } else {
        free(out.bytes);
    }
    return result;
}
