/* A pass of a Llama-shaped model over a few rows after those in a KV cache, for WebAssembly SIMD. No imports, no libc.
 *
 * All products, the two of attention included, are one: panels of eight outputs, [out / 8][in][8], times rows in blocks of
 * at most six (five). Every sum over inputs runs in their order, and what a row does not see adds zeros, so that a row of a tree
 * is computed as the same row alone, bit for bit.
 */
#include <stdint.h>
#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define INLINE static inline __attribute__((always_inline))
#define ROWS 128 /* of a pass */
#ifdef __wasm_relaxed_simd__
#define BLOCK 6 /* rows of a block of products: their sums stay in registers */
#else
#define BLOCK 5 /* a product needs a register more where it is not fused with its sum */
#endif
#define PANEL 8
#define MAX_LAYERS 16

typedef struct {
    float *attention_norm, *mlp_norm, *qkv, *mixed, *gate_and_up, *down;
} Layer;

typedef struct {
    int32_t layers, d, heads, shared, width, hidden, vocabulary, positions, together;
    float eps;
    float *norm, *output, *cos, *sin; /* output: the embedding as well; cos, sin: (positions, width / 2) */
    Layer layer[MAX_LAYERS];
    float *states, *normed, *all, *queries, *scores, *found, *heads_out, *gated, *packed;
    int32_t *places;
    uint8_t *sees;
} Model;

typedef struct {
    int32_t capacity; /* a multiple of 8 */
    float *kv;        /* (layers, 2, shared, capacity × width); keys [capacity / 8][width][8], values [width / 8][capacity][8] */
} Cache;

INLINE v128_t fma(v128_t a, v128_t b, v128_t c) {
#ifdef __wasm_relaxed_simd__
    return wasm_f32x4_relaxed_madd(a, b, c);
#else
    return wasm_f32x4_add(wasm_f32x4_mul(a, b), c);
#endif
}
INLINE v128_t spread(float x) { return wasm_f32x4_splat(x); }
INLINE v128_t load(const float *x) { return wasm_v128_load(x); }
INLINE void store(float *x, v128_t v) { wasm_v128_store(x, v); }

/* ---- memory ---- */

extern uint8_t __heap_base;
static uintptr_t top;

EXPORT(mark) uintptr_t mark(void) { return top ? top : (uintptr_t)&__heap_base; }
EXPORT(release) void release(uintptr_t to) { top = to; }

/* Bytes at a multiple of 64; 0 where there is no more. */
EXPORT(allocate) void *allocate(uint32_t bytes) {
    uintptr_t at = (mark() + 63) & ~(uintptr_t)63, end = at + bytes, have = __builtin_wasm_memory_size(0) << 16;
    if (end > have && __builtin_wasm_memory_grow(0, (end - have + 65535) >> 16) == (unsigned long)-1) return 0;
    top = end;
    return (void *)at;
}
static float *floats(int64_t count) { return allocate((uint32_t)(4 * count)); }

/* ---- products ---- */

/* The multiply-adds in this order, so that one spread value lives at a time: else browsers run out of registers, and blocks of
 * five and six rows take twice as long. */
#define ORDER_1(x, s) __asm__ volatile("" : "+r"(x), "+r"(s[0]), "+r"(s[1])::"memory");
#define ORDER_4(x, s)
#define BLOCKS(R, P)                                                                                                       \
    static void block_##R##_##P(const float *x, const float *w, int stride, int in, float *out, int apart, int add) {      \
        v128_t sum[R][2 * P];                                                                                              \
        const float *at[P];                                                                                                \
        for (int p = 0; p < P; p++) at[p] = w + p * stride;                                                                \
        for (int r = 0; r < R; r++)                                                                                        \
            for (int i = 0; i < 2 * P; i++) sum[r][i] = add ? load(out + r * apart + 4 * i) : spread(0.0f);                \
        _Pragma("clang loop unroll(disable)") for (int k = 0; k < in; k++, x += R) {                                                                             \
            v128_t weight[2 * P];                                                                                          \
            for (int p = 0; p < P; p++) {                                                                                  \
                weight[2 * p] = load(at[p]), weight[2 * p + 1] = load(at[p] + 4);                                          \
                at[p] += PANEL;                                                                                            \
            }                                                                                                              \
            for (int r = 0; r < R; r++) {                                                                                  \
                v128_t value = wasm_v128_load32_splat(x + r);                                                              \
                for (int i = 0; i < 2 * P; i++) sum[r][i] = fma(value, weight[i], sum[r][i]);                              \
                ORDER_##P(x, sum[r])                                                                                       \
            }                                                                                                              \
        }                                                                                                                  \
        for (int r = 0; r < R; r++)                                                                                        \
            for (int i = 0; i < 2 * P; i++) store(out + r * apart + 4 * i, sum[r][i]);                                     \
    }
BLOCKS(1, 4) BLOCKS(1, 1) BLOCKS(2, 1) BLOCKS(3, 1) BLOCKS(4, 1) BLOCKS(5, 1) BLOCKS(6, 1)

/* out (n, 8 × panels) = or += rows (n, in) × panels that lie `stride` apart; `wide`, `apart`: from row to row; `together`: 1 or
 * 4 panels at once of a single row. Four hide the time that a sum takes; one is read faster from outside the caches. */
static void product(const float *rows, int wide, int n, const float *w, int panels, int stride, int in, float *out, int apart,
                    int add, int together, float *packed) {
    int blocks = (n + BLOCK - 1) / BLOCK;
    for (int b = 0; b < blocks; b++) {
        int from = n * b / blocks, count = n * (b + 1) / blocks - from;
        float *to = packed + (int64_t)from * in;
        for (int r = 0; r < count; r++) {
            const float *row = rows + (int64_t)(from + r) * wide;
            for (int k = 0; k < in; k++) to[k * count + r] = row[k];
        }
    }
    for (int panel = 0, step; panel < panels; panel += step) {
        step = n == 1 && panels - panel >= together ? together : 1;
        for (int b = 0; b < blocks; b++) {
            int from = n * b / blocks, count = n * (b + 1) / blocks - from;
            const float *x = packed + (int64_t)from * in, *at = w + (int64_t)panel * stride;
            float *to = out + (int64_t)from * apart + panel * PANEL;
            switch (count) {
            case 1: (step == 4 ? block_1_4 : block_1_1)(x, at, stride, in, to, apart, add); break;
            case 2: block_2_1(x, at, stride, in, to, apart, add); break;
            case 3: block_3_1(x, at, stride, in, to, apart, add); break;
            case 4: block_4_1(x, at, stride, in, to, apart, add); break;
            case 5: block_5_1(x, at, stride, in, to, apart, add); break;
            default: block_6_1(x, at, stride, in, to, apart, add);
            }
        }
    }
}

/* rows (n, in) times a whole matrix of `out` outputs. */
static void linear(const Model *m, const float *rows, int n, const float *w, int in, int out, float *to, int add) {
    product(rows, in, n, w, out / PANEL, in * PANEL, in, to, out, add, m->together, m->packed);
}

/* ---- a model and its weights ---- */

EXPORT(model) Model *model(int layers, int d, int heads, int shared, int width, int hidden, int vocabulary, int positions, float eps) {
    Model *m = allocate(sizeof(Model));
    int all = (heads + 2 * shared) * width, lines = ROWS * heads / shared, columns = positions + ROWS;
    m->layers = layers, m->d = d, m->heads = heads, m->shared = shared, m->width = width, m->hidden = hidden;
    m->vocabulary = vocabulary, m->positions = positions, m->eps = eps;
    m->together = (int64_t)layers * d * (all + heads * width + 3 * hidden) > 2000000 ? 1 : 4;
    m->norm = floats(d), m->output = floats((int64_t)vocabulary * d);
    m->cos = floats(positions * width / 2), m->sin = floats(positions * width / 2);
    for (int i = 0; i < layers; i++) {
        Layer *l = m->layer + i;
        l->attention_norm = floats(d), l->mlp_norm = floats(d);
        l->qkv = floats(all * d), l->mixed = floats(heads * width * d);
        l->gate_and_up = floats(2 * hidden * d), l->down = floats(hidden * d);
    }
    m->states = floats(ROWS * d), m->normed = floats(ROWS * d), m->all = floats(ROWS * all);
    m->queries = floats(lines * width), m->found = floats(lines * width), m->heads_out = floats(ROWS * heads * width);
    m->scores = floats((int64_t)lines * columns), m->gated = floats(ROWS * 2 * hidden);
    m->packed = floats((int64_t)lines * (columns > hidden ? columns : hidden));
    m->places = allocate(4 * ROWS), m->sees = allocate(ROWS * columns);
    return m;
}

/* Where a part of a model's weights goes: of a layer, or with −1 what belongs to none. */
EXPORT(part) float *part(Model *m, int layer, int which) {
    if (layer < 0) return (float *[]){m->norm, m->output, m->cos, m->sin}[which];
    Layer *l = m->layer + layer;
    return (float *[]){l->attention_norm, l->mlp_norm, l->qkv, l->mixed, l->gate_and_up, l->down}[which];
}

INLINE float widened(uint16_t half) { /* exact, subnormal numbers included */
    union { uint32_t bits; float value; } u = {(uint32_t)(half & 0x7fff) << 13}, scale = {0x77800000}; /* 2^112 */
    u.value *= scale.value;
    u.bits |= (uint32_t)(half & 0x8000) << 16;
    return u.value;
}
EXPORT(widen) void widen(const uint16_t *from, float *to, int count) {
    for (int i = 0; i < count; i++) to[i] = widened(from[i]);
}

/* A float16 matrix (out, in) as panels, its first output being output `first` of `to`. */
EXPORT(pack) void pack(const uint16_t *from, float *to, int first, int out, int in) {
    for (int o = 0; o < out; o++) {
        float *column = to + (int64_t)(first + o) / PANEL * PANEL * in + (first + o) % PANEL;
        for (int k = 0; k < in; k++) column[k * PANEL] = widened(from[(int64_t)o * in + k]);
    }
}

EXPORT(cache) Cache *cache(const Model *m, int capacity) {
    Cache *c = allocate(sizeof(Cache));
    c->capacity = (capacity + PANEL - 1) / PANEL * PANEL;
    c->kv = floats((int64_t)m->layers * 2 * m->shared * c->capacity * m->width);
    return c && c->kv ? c : 0;
}

/* ---- the parts of a layer ---- */

INLINE float total_of(v128_t v) {
    return (wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1)) +
           (wasm_f32x4_extract_lane(v, 2) + wasm_f32x4_extract_lane(v, 3));
}

static void normalise(const float *rows, int n, const float *weight, int d, float eps, float *out) {
    for (int i = 0; i < n; i++, rows += d, out += d) {
        v128_t squares = spread(0.0f);
        for (int k = 0; k < d; k += 4) squares = fma(load(rows + k), load(rows + k), squares);
        v128_t scale = spread(1.0f / __builtin_sqrtf(total_of(squares) / (float)d + eps));
        for (int k = 0; k < d; k += 4)
            store(out + k, wasm_f32x4_mul(wasm_f32x4_mul(load(rows + k), scale), load(weight + k)));
    }
}

/* e to the power of x for x <= 0, within two units in the last place; 0 below −87. */
INLINE v128_t exponential(v128_t x) {
    v128_t whole = wasm_f32x4_nearest(wasm_f32x4_mul(x, spread(1.44269504f)));
    v128_t r = fma(whole, spread(-0.693359375f), x);
    r = fma(whole, spread(2.12194440e-4f), r);
    v128_t p = fma(spread(1.9875691500e-4f), r, spread(1.3981999507e-3f));
    p = fma(p, r, spread(8.3334519073e-3f));
    p = fma(p, r, spread(4.1665795894e-2f));
    p = fma(p, r, spread(1.6666665459e-1f));
    p = fma(p, r, spread(5.0000001201e-1f));
    v128_t y = fma(p, wasm_f32x4_mul(r, r), wasm_f32x4_add(r, spread(1.0f)));
    v128_t power = wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(whole), wasm_i32x4_splat(127)), 23);
    return wasm_v128_and(wasm_f32x4_mul(y, power), wasm_f32x4_gt(x, spread(-87.0f)));
}

INLINE float largest_of(const float *x, int count) {
    float most = -3.4e38f;
    for (int i = 0; i < count; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* x becomes e^(x − largest), up to a multiple of four; the sum in the order of the columns. */
static float exponentials(float *x, int count, float most) {
    float sum = 0.0f;
    for (int i = 0; i < count; i += 4) store(x + i, exponential(wasm_f32x4_sub(load(x + i), spread(most))));
    for (int i = 0; i < count; i++) sum += x[i];
    return sum;
}

static void turn(float *head, const float *cos, const float *sin, int half) {
    for (int k = 0; k < half; k += 4) {
        v128_t a = load(head + k), b = load(head + k + half), c = load(cos + k), s = load(sin + k);
        store(head + k, wasm_f32x4_sub(wasm_f32x4_mul(a, c), wasm_f32x4_mul(b, s)));
        store(head + k + half, wasm_f32x4_add(wasm_f32x4_mul(b, c), wasm_f32x4_mul(a, s)));
    }
}

/* The queries, keys and values of n rows at their places; keys and values go into the cache after `start` columns. */
static void keep_keys(const Model *m, int n, int start, float *keys, float *values, int64_t plane, int capacity) {
    int wide = (m->heads + 2 * m->shared) * m->width, width = m->width, half = width / 2;
    for (int i = 0; i < n; i++) {
        float *row = m->all + (int64_t)i * wide;
        const float *cos = m->cos + m->places[i] * half, *sin = m->sin + m->places[i] * half;
        for (int h = 0; h < m->heads + m->shared; h++) turn(row + h * width, cos, sin, half);
        int column = start + i;
        for (int g = 0; g < m->shared; g++) {
            const float *key = row + (m->heads + g) * width, *value = key + m->shared * width;
            float *key_to = keys + g * plane + (int64_t)(column / PANEL) * width * PANEL + column % PANEL;
            float *value_to = values + g * plane + (int64_t)column * PANEL;
            for (int k = 0; k < width; k++) {
                key_to[k * PANEL] = key[k];
                value_to[(int64_t)(k / PANEL) * capacity * PANEL + k % PANEL] = value[k];
            }
        }
    }
}

/* What n rows take from `base` rows that all see and from `more` of which `sees` says who sees them. */
static void attend(const Model *m, int n, int base, int more, const float *keys, const float *values, int64_t plane, int capacity) {
    int group = m->heads / m->shared, width = m->width, wide = (m->heads + 2 * m->shared) * width, total = base + more;
    int panels = (total + PANEL - 1) / PANEL, lines = n * group;
    v128_t scale = spread(1.0f / __builtin_sqrtf((float)width));
    for (int g = 0; g < m->shared; g++) {
        for (int line = 0; line < lines; line++) {
            const float *query = m->all + (int64_t)(line / group) * wide + (g * group + line % group) * width;
            for (int k = 0; k < width; k += 4) store(m->queries + line * width + k, wasm_f32x4_mul(load(query + k), scale));
        }
        product(m->queries, width, lines, keys + g * plane, panels, width * PANEL, width, m->scores, panels * PANEL, 0, 4, m->packed);
        for (int line = 0; line < lines; line++) {
            float *scores = m->scores + (int64_t)line * panels * PANEL;
            const uint8_t *sees = m->sees + (int64_t)(line / group) * more;
            for (int c = 0; c < more; c++)
                if (!sees[c]) scores[base + c] = -1e30f;
            m->queries[line] = 1.0f / exponentials(scores, total, largest_of(scores, total));
        }
        product(m->scores, panels * PANEL, lines, values + g * plane, width / PANEL, capacity * PANEL, total, m->found, width, 0, 4,
                m->packed);
        for (int line = 0; line < lines; line++) {
            float *to = m->heads_out + ((int64_t)(line / group) * m->heads + g * group + line % group) * width;
            for (int k = 0; k < width; k += 4)
                store(to + k, wasm_f32x4_mul(load(m->found + line * width + k), spread(m->queries[line])));
        }
    }
}

static void gate(float *rows, int n, int hidden) { /* (n, 2 × hidden) → (n, hidden), in place */
    v128_t one = spread(1.0f);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < hidden; k += 4) {
            v128_t x = load(rows + (int64_t)i * 2 * hidden + k), up = load(rows + (int64_t)i * 2 * hidden + hidden + k);
            v128_t e = exponential(wasm_f32x4_neg(wasm_f32x4_abs(x))), below = wasm_f32x4_add(one, e);
            v128_t s = wasm_v128_bitselect(wasm_f32x4_div(x, below), wasm_f32x4_div(wasm_f32x4_mul(x, e), below),
                                           wasm_f32x4_ge(x, spread(0.0f)));
            store(rows + (int64_t)i * hidden + k, wasm_f32x4_mul(s, up));
        }
}

/* ---- a pass ---- */

/* The places of rows known … known + n − 1 of a tree after `base` rows, and which rows of it each sees. */
static void look(const Model *m, int base, int known, int n, const int32_t *parents) {
    int more = known + n;
    for (int i = 0; i < n; i++) {
        uint8_t *sees = m->sees + (int64_t)i * more;
        int depth = 0;
        for (int c = 0; c < more; c++) sees[c] = 0;
        for (int row = known + i; row >= 0; row = parents[row], depth++) sees[row] = 1;
        m->places[i] = base + depth - 1;
    }
}

/* Read n <= ROWS tokens, rows known … known + n − 1 of a tree after `base` rows of the text; parents: of all its rows, −1
 * below the text. Logits of the rows from `first` on go to `out`. */
EXPORT(pass) void pass(const Model *m, const Cache *c, int base, int known, int n, const int32_t *tokens, const int32_t *parents,
                       int first, float *out) {
    int d = m->d, all = (m->heads + 2 * m->shared) * m->width;
    int64_t plane = (int64_t)c->capacity * m->width;
    look(m, base, known, n, parents);
    for (int i = 0; i < n; i++) {
        const float *column = m->output + (int64_t)tokens[i] / PANEL * PANEL * d + tokens[i] % PANEL;
        for (int k = 0; k < d; k++) m->states[(int64_t)i * d + k] = column[k * PANEL];
    }
    for (int number = 0; number < m->layers; number++) {
        const Layer *l = m->layer + number;
        float *keys = c->kv + (int64_t)number * 2 * m->shared * plane, *values = keys + m->shared * plane;
        normalise(m->states, n, l->attention_norm, d, m->eps, m->normed);
        linear(m, m->normed, n, l->qkv, d, all, m->all, 0);
        keep_keys(m, n, base + known, keys, values, plane, c->capacity);
        attend(m, n, base, known + n, keys, values, plane, c->capacity);
        linear(m, m->heads_out, n, l->mixed, m->heads * m->width, d, m->states, 1);
        normalise(m->states, n, l->mlp_norm, d, m->eps, m->normed);
        linear(m, m->normed, n, l->gate_and_up, d, 2 * m->hidden, m->gated, 0);
        gate(m->gated, n, m->hidden);
        linear(m, m->gated, n, l->down, m->hidden, d, m->states, 1);
    }
    if (first >= n) return;
    normalise(m->states + (int64_t)first * d, n - first, m->norm, d, m->eps, m->normed);
    linear(m, m->normed, n - first, m->output, d, m->vocabulary, out, 0);
}

/* After `base` rows of the text these rows of the tree come next, ascending; the others are forgotten. */
EXPORT(keep) void keep(const Model *m, const Cache *c, int base, const int32_t *rows, int n) {
    int64_t plane = (int64_t)c->capacity * m->width;
    for (int place = 0; place < n; place++) {
        int from = base + rows[place], to = base + place;
        if (from == to) continue;
        for (int p = 0; p < m->layers * 2 * m->shared; p++) {
            float *at = c->kv + p * plane;
            int is_key = p / m->shared % 2 == 0;
            for (int k = 0; k < m->width; k++) {
                int64_t panel = (int64_t)(k / PANEL) * c->capacity * PANEL + k % PANEL;
                if (is_key)
                    at[(int64_t)(to / PANEL) * m->width * PANEL + k * PANEL + to % PANEL] =
                        at[(int64_t)(from / PANEL) * m->width * PANEL + k * PANEL + from % PANEL];
                else at[panel + (int64_t)to * PANEL] = at[panel + (int64_t)from * PANEL];
            }
        }
    }
}

/* ---- rows of logits ---- */

EXPORT(best) int best(const float *x, int count) { /* the first of equal ones */
    int found = 0;
    for (int i = 1; i < count; i++)
        if (x[i] > x[found]) found = i;
    return found;
}

EXPORT(softmax) void softmax(const float *x, float *out, int count, float temperature) { /* count: a multiple of 4 */
    v128_t by = spread(temperature);
    for (int i = 0; i < count; i += 4) store(out + i, wasm_f32x4_div(load(x + i), by));
    float most = largest_of(out, count);
    double sum = 0.0;
    for (int i = 0; i < count; i += 4) store(out + i, exponential(wasm_f32x4_sub(load(out + i), spread(most))));
    for (int i = 0; i < count; i++) sum += out[i];
    v128_t inverse = spread((float)sum);
    for (int i = 0; i < count; i += 4) store(out + i, wasm_f32x4_div(load(out + i), inverse));
}
