/* A Llama-shaped model's pass over a few rows after those in a KV cache, on a CPU.
 *
 * What a row gets depends on that row and on what it sees, never on the other rows of the pass, the number of threads or
 * the processor: integer sums are exact, float sums have one fixed order, and keys are taken in the order of the text, so
 * that a row of a tree is computed as the same row alone, bit for bit.
 */
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES 16
#define AHEAD 1
#define ROWS 6 /* rows of a block of products: with two blocks of outputs, 24 sums stay in registers */
#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

typedef float f32 __attribute__((vector_size(64)));
typedef int32_t i32 __attribute__((vector_size(64)));
typedef f32 f32u __attribute__((aligned(4)));
typedef _Float16 f16 __attribute__((vector_size(32), aligned(2)));

typedef struct {
    int32_t bits;        /* 8 or 16 */
    int32_t out, in;     /* multiples of 16 */
    const void *weights; /* 8: uint8, w + 128, [out / 16][in / 4][16][4]; 16: float16 [out / 16][in][16] */
    const float *scales; /* 8: [out / 16][in / group][16] */
    const float *bias;   /* or none */
    int32_t group;       /* 8: inputs with a common scale; at least 32, divides in, a multiple of 16 */
} Linear;

typedef struct {
    const float *before_attention, *before_mlp; /* norms, (d); the first may be missing */
    const float *query_norm, *key_norm;         /* (width), or none */
    Linear attention_input, attention_output, gate_and_up, down;
} Layer;

typedef struct {
    int32_t layers, d, heads, shared, width, hidden;
    float eps, scaling;
    const Layer *layer;
    const float *norm;        /* the last, (d), or none */
    const float *cos, *sin;   /* (positions, width), the sign of the first half in sin */
    Linear output;
} Model;

typedef struct {
    const Model *model;
    int32_t first, last;      /* layers to run */
    int32_t n, end, capacity; /* rows of the pass, rows before them, rows reserved */
    int32_t logits;           /* for how many rows, from the last */
    const float *input;       /* (n, in): what the first layer's attention reads, if not the states */
    float *states;            /* (n, d), read and written */
    float *normed;            /* (n, d): what the output matrix reads, written after the last layer; or none */
    float *out;               /* (logits, V), or none */
    const int64_t *positions; /* (n) */
    const float *mask;        /* additive, (n, end + n), or none */
    int64_t mask_stride;
    float *kv;                /* (layers, 2, shared, capacity, width) */
    float *work;              /* see `work_floats` */
    int32_t threads;
} Pass;

typedef struct {
    const Linear *linear;
    const float *rows; /* (n, in) */
    float *out;        /* (n, out) */
    void *work;
    int32_t n, threads;
} Product;

typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);
typedef int (*Number)(void);
static Parallel parallel;
static Number number;

EXPORT void specdec_threads(Parallel run, Number which) { parallel = run, number = which; }

/* ---- vectors ---- */

INLINE f32 spread(float x) { return (f32){} + x; }
INLINE f32 load(const float *x) { return *(const f32u *)x; }
INLINE void store(float *x, f32 v) { *(f32u *)x = v; }
INLINE f32 fma16(f32 a, f32 b, f32 c) { return __builtin_elementwise_fma(a, b, c); }
INLINE f32 larger(f32 a, f32 b) { return __builtin_elementwise_max(a, b); }
INLINE f32 absolute(f32 a) { return __builtin_elementwise_abs(a); }
INLINE f32 choose(i32 where, f32 a, f32 b) { return (f32)((where & (i32)a) | (~where & (i32)b)); }

INLINE float sum(f32 v) {
    float s[LANES];
    store(s, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}

INLINE float most(f32 v) {
    float s[LANES];
    store(s, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] = s[i] > s[i + half] ? s[i] : s[i + half];
    return s[0];
}

/* The sums of sixteen vectors as one, each in the order of `sum`. */
INLINE f32 sums(const f32 v[LANES]) {
    f32 a[8], b[4], c[2];
    for (int i = 0; i < 8; i++) { /* lanes 0–7 from v[i], 8–15 from v[i + 8] */
        f32 low = __builtin_shufflevector(v[i], v[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        f32 high = __builtin_shufflevector(v[i], v[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        a[i] = low + high;
    }
    for (int i = 0; i < 4; i++) { /* quarters: i, i + 4, i + 8, i + 12 */
        f32 low = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        f32 high = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        b[i] = low + high;
    }
    for (int i = 0; i < 2; i++) {
        f32 low = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        f32 high = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        c[i] = low + high;
    }
    f32 low = __builtin_shufflevector(c[0], c[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    f32 high = __builtin_shufflevector(c[0], c[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
    f32 d = low + high; /* lane order: 0, 1, 2 … of groups: see ORDER */
    /* lane l of d holds v[…]: half (l / 8) adds 8, quarter (l / 4 % 2) adds 4, pair (l / 2 % 2) adds 2, l % 2 adds 1 */
    return d;
}

/* e to the power of x for x <= 0, within two units in the last place; 0 below −87. */
INLINE f32 exponential(f32 x) {
    f32 t = x * spread(1.44269504f), magic = spread(12582912.0f);
    f32 whole = (t + magic) - magic;
    f32 r = fma16(whole, spread(-0.693359375f), x);
    r = fma16(whole, spread(2.12194440e-4f), r);
    f32 p = spread(1.9875691500e-4f);
    p = fma16(p, r, spread(1.3981999507e-3f));
    p = fma16(p, r, spread(8.3334519073e-3f));
    p = fma16(p, r, spread(4.1665795894e-2f));
    p = fma16(p, r, spread(1.6666665459e-1f));
    p = fma16(p, r, spread(5.0000001201e-1f));
    f32 y = fma16(p, r * r, r + spread(1.0f));
    i32 power = (__builtin_convertvector(whole, i32) + 127) << 23;
    return choose(x > spread(-87.0f), y * (f32)power, spread(0.0f));
}

/* ---- threads ---- */

typedef struct {
    _Atomic int32_t arrived, turn;
} Barrier;

/* How many threads run what `run` started; fewer than asked for where the process has no more. */
INLINE int team(void) { return parallel && number ? number() : 1; }

INLINE void pause_(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

extern int sched_yield(void);

static void wait(Barrier *barrier, int threads) {
    if (threads == 1) return;
    int32_t turn = __c11_atomic_load(&barrier->turn, __ATOMIC_ACQUIRE);
    if (__c11_atomic_fetch_add(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == threads - 1) {
        __c11_atomic_store(&barrier->arrived, 0, __ATOMIC_RELAXED);
        __c11_atomic_store(&barrier->turn, turn + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int tries = 0; __c11_atomic_load(&barrier->turn, __ATOMIC_ACQUIRE) == turn; tries++)
        if (tries < 4000) pause_();
        else sched_yield();
}

/* ---- rows in 8 bits ---- */

/* x ≈ scale · (coarse + rest / 254), both in [−127, 127]. sums: of each group −128 times the sum of each, since the
 * weights are stored with 128 added. */
static void quantise(const float *x, int in, int group, int8_t *coarse, int8_t *rest, float *scale, int32_t *sums) {
    f32 top = spread(0.0f), magic = spread(12582912.0f);
    for (int k = 0; k < in; k += LANES) top = larger(top, absolute(load(x + k)));
    float largest = most(top);
    *scale = largest / 127.0f;
    float inverse = largest > 1e-30f ? 127.0f / largest : 0.0f;
    typedef int8_t i8 __attribute__((vector_size(16), aligned(1)));
    for (int g = 0; g < in; g += group) {
        i32 all = {}, all_rest = {};
        for (int k = g; k < g + group; k += LANES) {
            f32 t = load(x + k) * inverse, whole = (t + magic) - magic;
            f32 left = (t - whole) * 254.0f;
            i32 a = __builtin_convertvector(whole, i32), b = __builtin_convertvector((left + magic) - magic, i32);
            all += a, all_rest += b;
            *(i8 *)(coarse + k) = __builtin_convertvector(a, i8);
            *(i8 *)(rest + k) = __builtin_convertvector(b, i8);
        }
        int32_t s = 0, r = 0;
        for (int i = 0; i < LANES; i++) s += all[i], r += all_rest[i];
        *sums++ = -128 * s, *sums++ = -128 * r;
    }
}

/* sum += the products of four weights (0 … 255) each of sixteen outputs with four values (−127 … 127). */
INLINE i32 dot(i32 total, const uint8_t *weights, int32_t four) {
#if defined(__AVX512VNNI__)
    return (i32)_mm512_dpbusd_epi32((__m512i)total, _mm512_loadu_si512(weights), _mm512_set1_epi32(four));
#elif defined(__AVX2__)
    __m256i x = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
    union { i32 v; __m256i h[2]; } t = {total};
    for (int half = 0; half < 2; half++) {
        __m256i low = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(weights + 32 * half))), x);
        __m256i high = _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(weights + 32 * half + 16))), x);
        __m256i both = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xD8);
        t.h[half] = _mm256_add_epi32(t.h[half], both);
    }
    return t.v;
#else
    int8_t x[4];
    memcpy(x, &four, 4);
    for (int i = 0; i < LANES; i++)
        total[i] += weights[4 * i] * x[0] + weights[4 * i + 1] * x[1] + weights[4 * i + 2] * x[2] + weights[4 * i + 3] * x[3];
    return total;
#endif
}

INLINE int32_t four_of(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, 4);
    return four;
}

/* Rows in 8 bits or as they are; of 8 bits n coarse rows, n rest rows, n scales, n times a pair of sums for each group. */
typedef struct {
    const float *rows;
    int8_t *coarse, *rest;
    float *scales;
    int32_t *sums;
} Rows;

/* What n rows in 8 bits need; a row's groups have at least 32 inputs. */
INLINE int64_t bytes_of_eights(int64_t n, int64_t in) { return n * (2 * in + 4 + in / 4 + 8); }

INLINE void eight(const Linear *l, const Rows *x, int row, int count, int block, int second, int blocks, f32 out[ROWS][2]) {
    int in = l->in, group = l->group, groups = in / group, unit = second == block + 1 ? 2 : 1;
    const uint8_t *w = (const uint8_t *)l->weights + (int64_t)block * LANES * in;
    const uint8_t *w2 = (const uint8_t *)l->weights + (int64_t)second * LANES * in;
    const float *scales = l->scales + (int64_t)block * LANES * groups, *scales2 = l->scales + (int64_t)second * LANES * groups;
    const int8_t *coarse = x->coarse + (int64_t)row * in, *rest = x->rest + (int64_t)row * in;
    const int32_t *sums = x->sums + (int64_t)row * 2 * groups;
    f32 s[ROWS][2] = {};
    for (int g = 0; g < groups; g++, scales += LANES, scales2 += LANES, sums += 2) {
        i32 a[ROWS][2], b[ROWS][2];
        /* the weights two groups on, or of the next blocks */
        int64_t ahead = AHEAD * group * LANES;
        if (g + AHEAD >= groups) ahead += (int64_t)(unit - 1) * LANES * in;
        for (int r = 0; r < count; r++)
            for (int half = 0; half < blocks; half++)
                a[r][half] = (i32){} + sums[(int64_t)r * 2 * groups], b[r][half] = (i32){} + sums[(int64_t)r * 2 * groups + 1];
        for (int k = 0; k < group; k += 4, w += 4 * LANES, w2 += 4 * LANES, coarse += 4, rest += 4)
            {
            if (count >= 4) __builtin_prefetch(w + ahead, 0, 3);
            if (count >= 4 && blocks == 2) __builtin_prefetch(w2 + ahead, 0, 3);
            for (int r = 0; r < count; r++) {
                int32_t four = four_of(coarse + (int64_t)r * in), less = four_of(rest + (int64_t)r * in);
                a[r][0] = dot(a[r][0], w, four), b[r][0] = dot(b[r][0], w, less);
                if (blocks == 2) a[r][1] = dot(a[r][1], w2, four), b[r][1] = dot(b[r][1], w2, less);
            }
            }
        for (int r = 0; r < count; r++)
            for (int half = 0; half < blocks; half++) {
                f32 whole = __builtin_convertvector(a[r][half], f32), part = __builtin_convertvector(b[r][half], f32);
                s[r][half] = fma16(fma16(part, spread(1.0f / 254.0f), whole), load(half ? scales2 : scales), s[r][half]);
            }
    }
    for (int r = 0; r < count; r++)
        for (int half = 0; half < blocks; half++) out[r][half] = s[r][half] * x->scales[row + r];
}

INLINE void sixteen(const Linear *l, const Rows *x, int row, int count, int block, int second, int blocks, f32 out[ROWS][2]) {
    int in = l->in;
    const _Float16 *w = (const _Float16 *)l->weights + (int64_t)block * LANES * in;
    const _Float16 *w2 = (const _Float16 *)l->weights + (int64_t)second * LANES * in;
    f32 s[ROWS][2] = {};
    const float *rows = x->rows + (int64_t)row * in;
    for (int k = 0; k < in; k++, w += LANES, w2 += LANES) {
        f32 one = __builtin_convertvector(*(const f16 *)w, f32), other = {};
        if (blocks == 2) other = __builtin_convertvector(*(const f16 *)w2, f32);
        for (int r = 0; r < count; r++) {
            f32 value = spread(rows[(int64_t)r * in + k]);
            s[r][0] = fma16(value, one, s[r][0]);
            if (blocks == 2) s[r][1] = fma16(value, other, s[r][1]);
        }
    }
    for (int r = 0; r < count; r++)
        for (int half = 0; half < blocks; half++) out[r][half] = s[r][half];
}

enum { PUT, ADD, GATE };

/* Rows [row, row + count) of output blocks `block` and `second`, or of `block` alone. GATE: the first is the gate of the
 * second, and what passes it is written. */
INLINE void some(const Linear *l, const Rows *x, int row, int count, int block, int second, int blocks, float *out, int stride,
                 int what) {
    f32 found[ROWS][2];
    int from[2] = {block, second};
    if (l->bits == 8) eight(l, x, row, count, block, second, blocks, found);
    else sixteen(l, x, row, count, block, second, blocks, found);
    for (int r = 0; r < count; r++) {
        float *to = out + (int64_t)(row + r) * stride;
        for (int half = 0; half < blocks; half++)
            if (l->bias) found[r][half] += load(l->bias + from[half] * LANES);
        if (what == GATE) {
            f32 gate = found[r][0], e = exponential(-absolute(gate));
            f32 above = gate / (spread(1.0f) + e), below = gate * e / (spread(1.0f) + e);
            store(to + block * LANES, choose(gate >= spread(0.0f), above, below) * found[r][1]);
        } else
            for (int half = 0; half < blocks; half++) {
                float *at = to + from[half] * LANES;
                store(at, what == ADD ? load(at) + found[r][half] : found[r][half]);
            }
    }
}

/* Output blocks [from, to) of all n rows; of a gate, those of the gate. */
static void product(const Linear *l, const Rows *x, int n, int from, int to, float *out, int stride, int what) {
    int step = what == GATE ? 1 : 2, apart = what == GATE ? l->out / LANES / 2 : 1;
    for (int block = from; block < to; block += step) {
        int row = 0, second = block + apart;
        if (what != GATE && to - block < 2) {
            for (; row < n; row++) some(l, x, row, 1, block, block, 1, out, stride, what);
            continue;
        }
        for (; row + ROWS <= n; row += ROWS) some(l, x, row, ROWS, block, second, 2, out, stride, what);
        switch (n - row) {
#define CASE(c) case c: some(l, x, row, c, block, second, 2, out, stride, what); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5)
        }
    }
}

/* Thread `t`'s part of a product. */
static void shared_product(const Linear *l, const Rows *x, int n, int threads, int t, float *out, int stride, int what) {
    int blocks = l->out / LANES / (what == GATE ? 2 : 1), per = what == GATE ? 1 : 2, units = (blocks + per - 1) / per;
    int from = per * (int)((int64_t)units * t / threads), to = per * (int)((int64_t)units * (t + 1) / threads);
    product(l, x, n, from, to < blocks ? to : blocks, out, stride, what);
}

/* ---- the parts of a layer ---- */

static void norm(const float *x, const float *weight, int d, float eps, float *out) {
    f32 squares = {};
    for (int k = 0; k < d; k += LANES) squares = fma16(load(x + k), load(x + k), squares);
    float scale = 1.0f / __builtin_sqrtf(sum(squares) / (float)d + eps);
    for (int k = 0; k < d; k += LANES) store(out + k, load(x + k) * scale * load(weight + k));
}

/* room: `bytes_of_eights`, aligned to 4. */
static Rows prepared(const Linear *l, const float *rows, int n, void *room) {
    int64_t in = l->in;
    Rows x = {.rows = rows, .coarse = room};
    if (l->bits != 8) return x;
    x.rest = x.coarse + n * in, x.scales = (float *)(x.rest + n * in), x.sums = (int32_t *)(x.scales + n);
    for (int64_t i = 0; i < n; i++)
        quantise(rows + i * in, l->in, l->group, x.coarse + i * in, x.rest + i * in, x.scales + i, x.sums + i * 2 * (in / l->group));
    return x;
}

static void turn(float *head, const float *weight, float eps, const float *cos, const float *sin, int width) {
    if (weight) norm(head, weight, width, eps, head);
    int half = width / 2;
    for (int k = 0; k < half; k++) {
        float a = head[k], b = head[k + half];
        head[k] = __builtin_fmaf(b, sin[k], a * cos[k]);
        head[k + half] = __builtin_fmaf(a, sin[k + half], b * cos[k + half]);
    }
}

/* One query's attention to `count` rows, `seen` being their numbers; scores: room for count + 15. */
static void attend(const float *query, const float *keys, const float *values, const int32_t *seen, int count, int width,
                   float scaling, float *scores, float *out) {
    f32 top = spread(-3.4e38f);
    for (int c = 0; c < count; c += LANES) {
        f32 total[LANES];
        for (int i = 0; i < LANES; i++) {
            int one = c + i < count ? c + i : count - 1;
            const float *key = keys + (int64_t)seen[one] * width;
            f32 s = {};
            for (int k = 0; k < width; k += LANES) s = fma16(load(query + k), load(key + k), s);
            total[i] = s;
        }
        f32 found = sums(total) * scaling;
        i32 number = (i32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + c;
        found = choose(number < count, found, spread(-3.4e38f));
        store(scores + c, found);
        top = larger(top, found);
    }
    float largest = most(top);
    f32 total = {};
    for (int c = 0; c < count; c += LANES) {
        f32 e = exponential(load(scores + c) - largest);
        store(scores + c, e);
        total += e;
    }
    float inverse = 1.0f / sum(total);
    f32 mixed[16] = {};
    int parts = width / LANES;
    for (int c = 0; c < count; c++) {
        const float *value = values + (int64_t)seen[c] * width;
        f32 p = spread(scores[c]);
        for (int k = 0; k < parts; k++) mixed[k] = fma16(p, load(value + k * LANES), mixed[k]);
    }
    for (int k = 0; k < parts; k++) store(out + k * LANES, mixed[k] * inverse);
}

/* ---- a pass ---- */

typedef struct {
    const Pass *pass;
    Barrier barrier;
    _Atomic int32_t started;
    float *qkv, *mixed, *acted; /* of all rows */
    int32_t *seen, *counts;     /* which rows each row sees */
    float *own;                 /* the first thread's room; `own_floats` each */
    int64_t own_floats;
} Job;

static float *aligned(float *x) { return (float *)(((uintptr_t)x + 63) & ~(uintptr_t)63); }

static int64_t larger_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* The longest row that a product reads. */
static int64_t widest_of(const Model *m) {
    int64_t widest = larger_of(m->hidden, larger_of(m->d, m->heads * m->width));
    for (int i = 0; i < m->layers; i++) widest = larger_of(widest, m->layer[i].attention_input.in);
    return widest;
}

static int64_t own_floats(const Model *m, int n, int total) {
    int64_t widest = widest_of(m);
    return (int64_t)n * m->d + 16 + bytes_of_eights(n, widest) / 4 + 64 + total + 64;
}

EXPORT int64_t specdec_work_floats(const Model *m, int n, int total, int threads) {
    int64_t qkv = (int64_t)(m->heads + 2 * m->shared) * m->width;
    return n * (qkv + m->heads * m->width + m->hidden) + (int64_t)n * total + n + 64 + threads * own_floats(m, n, total);
}

static void look(const Job *job, int t, int threads) {
    const Pass *p = job->pass;
    int total = p->end + p->n;
    for (int i = t; i < p->n; i += threads) {
        int32_t *seen = job->seen + (int64_t)i * total, count = 0;
        const float *mask = p->mask ? p->mask + i * p->mask_stride : 0;
        for (int c = 0; c < total; c++) {
            seen[count] = c;
            count += !mask || mask[c] == 0.0f;
        }
        job->counts[i] = count;
    }
}

static void layer(Job *job, int number, int t, int threads, float *own) {
    const Pass *p = job->pass;
    const Model *m = p->model;
    const Layer *l = m->layer + number;
    Barrier *barrier = &job->barrier;
    int n = p->n, width = m->width, all = m->heads + 2 * m->shared, total = p->end + n;
    int per = width / LANES, wide = all * width;
    float *normed = own;
    void *eights = own + (int64_t)n * m->d;
    float *scores = aligned((float *)((char *)eights + bytes_of_eights(n, widest_of(m))));
    const float *read = number == p->first && p->input ? p->input : p->states;

    if (l->before_attention) {
        for (int i = 0; i < n; i++) norm(read + (int64_t)i * m->d, l->before_attention, m->d, m->eps, normed + (int64_t)i * m->d);
        read = normed;
    }
    Rows x = prepared(&l->attention_input, read, n, eights);
    int64_t plane = (int64_t)p->capacity * width;
    float *keys = p->kv + (int64_t)number * 2 * m->shared * plane, *values = keys + m->shared * plane;
    int from = all * t / threads, to = all * (t + 1) / threads; /* heads, so that each is turned where it was computed */
    product(&l->attention_input, &x, n, from * per, to * per, job->qkv, wide, PUT);
    for (int i = 0; i < n; i++)
        for (int h = from; h < to; h++) {
            float *head = job->qkv + (int64_t)i * wide + h * width;
            const float *cos = m->cos + p->positions[i] * width, *sin = m->sin + p->positions[i] * width;
            if (h < m->heads) turn(head, l->query_norm, m->eps, cos, sin, width);
            else if (h < m->heads + m->shared) {
                turn(head, l->key_norm, m->eps, cos, sin, width);
                memcpy(keys + (h - m->heads) * plane + (int64_t)(p->end + i) * width, head, 4 * width);
            } else
                memcpy(values + (h - m->heads - m->shared) * plane + (int64_t)(p->end + i) * width, head, 4 * width);
        }
    wait(barrier, threads);
    int group = m->heads / m->shared, items = m->heads * n;
    for (int item = items * t / threads; item < items * (t + 1) / threads; item++) {
        int h = item / n, i = item % n;
        attend(job->qkv + (int64_t)i * wide + h * width, keys + h / group * plane, values + h / group * plane,
               job->seen + (int64_t)i * total, job->counts[i], width, m->scaling, scores,
               job->mixed + ((int64_t)i * m->heads + h) * width);
    }
    wait(barrier, threads);
    x = prepared(&l->attention_output, job->mixed, n, eights);
    shared_product(&l->attention_output, &x, n, threads, t, p->states, m->d, ADD);
    wait(barrier, threads);
    for (int i = 0; i < n; i++) norm(p->states + (int64_t)i * m->d, l->before_mlp, m->d, m->eps, normed + (int64_t)i * m->d);
    x = prepared(&l->gate_and_up, normed, n, eights);
    shared_product(&l->gate_and_up, &x, n, threads, t, job->acted, m->hidden, GATE);
    wait(barrier, threads);
    x = prepared(&l->down, job->acted, n, eights);
    shared_product(&l->down, &x, n, threads, t, p->states, m->d, ADD);
    wait(barrier, threads);
}

static void work(void *given) {
    Job *job = given;
    const Pass *p = job->pass;
    const Model *m = p->model;
    int t = __c11_atomic_fetch_add(&job->started, 1, __ATOMIC_ACQ_REL), threads = team();
    float *own = job->own + t * job->own_floats;
    look(job, t, threads);
    for (int number = p->first; number < p->last; number++) layer(job, number, t, threads, own);
    if (!p->normed) return;
    float *mine = p->normed;
    if (t == 0)
        for (int i = 0; i < p->n; i++) norm(p->states + (int64_t)i * m->d, m->norm, m->d, m->eps, mine + (int64_t)i * m->d);
    wait(&job->barrier, threads);
    if (!p->out) return;
    Rows x = prepared(&m->output, mine + (int64_t)(p->n - p->logits) * m->d, p->logits, own + (int64_t)p->n * m->d);
    shared_product(&m->output, &x, p->logits, threads, t, p->out, m->output.out, PUT);
}

static void run(void (*what)(void *), void *job, int threads) {
    if (threads > 1 && parallel) parallel(what, job, (unsigned)threads, 0);
    else what(job);
}

EXPORT void specdec_pass(const Pass *p) {
    const Model *m = p->model;
    int64_t qkv = (int64_t)(m->heads + 2 * m->shared) * m->width, total = p->end + p->n;
    Job job = {.pass = p};
    job.qkv = aligned(p->work);
    job.mixed = job.qkv + p->n * qkv;
    job.acted = job.mixed + (int64_t)p->n * m->heads * m->width;
    job.seen = (int32_t *)(job.acted + (int64_t)p->n * m->hidden);
    job.counts = job.seen + p->n * total;
    job.own = (float *)(job.counts + p->n);
    job.own_floats = own_floats(m, p->n, (int)total);
    run(work, &job, p->threads);
}

/* ---- one product ---- */

typedef struct {
    const Product *product;
    Rows rows;
    _Atomic int32_t started;
} ProductJob;

static void work_product(void *given) {
    ProductJob *job = given;
    const Product *p = job->product;
    int t = __c11_atomic_fetch_add(&job->started, 1, __ATOMIC_ACQ_REL);
    shared_product(p->linear, &job->rows, p->n, team(), t, p->out, p->linear->out, PUT);
}

/* work: n · (2.25 · in + 12) bytes */
EXPORT void specdec_product(const Product *p) {
    ProductJob job = {.product = p};
    job.rows = prepared(p->linear, p->rows, p->n, p->work);
    run(work_product, &job, p->threads);
}
