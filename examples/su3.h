/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arithmetic of colour: 3x3 complex matrices and vectors of three complex numbers, in double precision. Plain inline
 * functions of C and of C++ that the host and a GPU's compiler understand alike; nothing here allocates or includes
 * anything. A matrix is 18 doubles, rows first, real and imaginary part in turn: the order in files.
 */
#ifndef SU3_H
#define SU3_H

#if defined(__CUDACC__)
#define SU3_CALL __host__ __device__ static inline __attribute__((unused))
#elif defined(__HIP__) /* without HIP's headers, which name these attributes __host__ and __device__ */
#define SU3_CALL __attribute__((host)) __attribute__((device)) static inline __attribute__((unused))
#else
#define SU3_CALL static inline __attribute__((unused))
#endif

enum { SU3_COLOURS = 3, SU3_DOUBLES = 18 };

typedef struct su3_complex {
    double re, im;
} su3_complex_t;

typedef struct su3_vector {
    su3_complex_t c[SU3_COLOURS];
} su3_vector_t;

typedef struct su3_matrix {
    su3_complex_t e[SU3_COLOURS][SU3_COLOURS]; /* row, column */
} su3_matrix_t;

SU3_CALL su3_complex_t su3_c(double re, double im)
{
    su3_complex_t c;
    c.re = re;
    c.im = im;
    return c;
}

SU3_CALL su3_complex_t su3_c_add(su3_complex_t a, su3_complex_t b)
{
    return su3_c(a.re + b.re, a.im + b.im);
}

SU3_CALL su3_complex_t su3_c_sub(su3_complex_t a, su3_complex_t b)
{
    return su3_c(a.re - b.re, a.im - b.im);
}

SU3_CALL su3_complex_t su3_c_conj(su3_complex_t a)
{
    return su3_c(a.re, -a.im);
}

SU3_CALL su3_complex_t su3_c_mul(su3_complex_t a, su3_complex_t b)
{
    return su3_c(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

/* sum + a b: three of these in a row are an element of a product. */
SU3_CALL su3_complex_t su3_c_mul_add(su3_complex_t sum, su3_complex_t a, su3_complex_t b)
{
    return su3_c_add(sum, su3_c_mul(a, b));
}

SU3_CALL double su3_c_norm2(su3_complex_t a)
{
    return a.re * a.re + a.im * a.im;
}

SU3_CALL su3_vector_t su3_v_add(su3_vector_t a, su3_vector_t b)
{
    for (int i = 0; i < SU3_COLOURS; i++)
        a.c[i] = su3_c_add(a.c[i], b.c[i]);
    return a;
}

SU3_CALL su3_vector_t su3_v_sub(su3_vector_t a, su3_vector_t b)
{
    for (int i = 0; i < SU3_COLOURS; i++)
        a.c[i] = su3_c_sub(a.c[i], b.c[i]);
    return a;
}

SU3_CALL su3_vector_t su3_v_scale(double s, su3_vector_t a)
{
    for (int i = 0; i < SU3_COLOURS; i++)
        a.c[i] = su3_c(s * a.c[i].re, s * a.c[i].im);
    return a;
}

/* i times a. */
SU3_CALL su3_vector_t su3_v_times_i(su3_vector_t a)
{
    for (int i = 0; i < SU3_COLOURS; i++)
        a.c[i] = su3_c(-a.c[i].im, a.c[i].re);
    return a;
}

/* u v */
SU3_CALL su3_vector_t su3_times_vector(const su3_matrix_t *u, su3_vector_t v)
{
    su3_vector_t r;
    for (int i = 0; i < SU3_COLOURS; i++) {
        su3_complex_t sum = su3_c_mul(u->e[i][0], v.c[0]);
        sum = su3_c_mul_add(sum, u->e[i][1], v.c[1]);
        r.c[i] = su3_c_mul_add(sum, u->e[i][2], v.c[2]);
    }
    return r;
}

/* u^+ v */
SU3_CALL su3_vector_t su3_adjoint_times_vector(const su3_matrix_t *u, su3_vector_t v)
{
    su3_vector_t r;
    for (int i = 0; i < SU3_COLOURS; i++) {
        su3_complex_t sum = su3_c_mul(su3_c_conj(u->e[0][i]), v.c[0]);
        sum = su3_c_mul_add(sum, su3_c_conj(u->e[1][i]), v.c[1]);
        r.c[i] = su3_c_mul_add(sum, su3_c_conj(u->e[2][i]), v.c[2]);
    }
    return r;
}

SU3_CALL su3_matrix_t su3_zero(void)
{
    su3_matrix_t m;
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++)
            m.e[i][j] = su3_c(0, 0);
    return m;
}

SU3_CALL su3_matrix_t su3_unit(void)
{
    su3_matrix_t m = su3_zero();
    for (int i = 0; i < SU3_COLOURS; i++)
        m.e[i][i].re = 1;
    return m;
}

SU3_CALL su3_matrix_t su3_add(const su3_matrix_t *a, const su3_matrix_t *b)
{
    su3_matrix_t m;
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++)
            m.e[i][j] = su3_c_add(a->e[i][j], b->e[i][j]);
    return m;
}

SU3_CALL su3_matrix_t su3_adjoint(const su3_matrix_t *a)
{
    su3_matrix_t m;
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++)
            m.e[i][j] = su3_c_conj(a->e[j][i]);
    return m;
}

/* a b */
SU3_CALL su3_matrix_t su3_mul(const su3_matrix_t *a, const su3_matrix_t *b)
{
    su3_matrix_t m;
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++) {
            su3_complex_t sum = su3_c_mul(a->e[i][0], b->e[0][j]);
            sum = su3_c_mul_add(sum, a->e[i][1], b->e[1][j]);
            m.e[i][j] = su3_c_mul_add(sum, a->e[i][2], b->e[2][j]);
        }
    return m;
}

/* a b^+ */
SU3_CALL su3_matrix_t su3_mul_adjoint(const su3_matrix_t *a, const su3_matrix_t *b)
{
    su3_matrix_t m = su3_adjoint(b);
    return su3_mul(a, &m);
}

/* a^+ b */
SU3_CALL su3_matrix_t su3_adjoint_mul(const su3_matrix_t *a, const su3_matrix_t *b)
{
    su3_matrix_t m = su3_adjoint(a);
    return su3_mul(&m, b);
}

/* Real part of the trace of a. */
SU3_CALL double su3_re_trace(const su3_matrix_t *a)
{
    return a->e[0][0].re + a->e[1][1].re + a->e[2][2].re;
}

/* Real part of the trace of a b: six products a row instead of a whole matrix. */
SU3_CALL double su3_re_trace_mul(const su3_matrix_t *a, const su3_matrix_t *b)
{
    double sum = 0;
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++)
            sum += a->e[i][j].re * b->e[j][i].re - a->e[i][j].im * b->e[j][i].im;
    return sum;
}

SU3_CALL void su3_normalise_row(su3_complex_t *row)
{
    double scale = 1 / __builtin_sqrt(su3_c_norm2(row[0]) + su3_c_norm2(row[1]) + su3_c_norm2(row[2]));
    for (int j = 0; j < SU3_COLOURS; j++)
        row[j] = su3_c(scale * row[j].re, scale * row[j].im);
}

/* The nearest that Gram and Schmidt find: rows 0 and 1 made orthonormal, row 2 the conjugate of their cross product, so
   that the determinant is 1. Takes away what rounding has added. */
SU3_CALL void su3_reunitarise(su3_matrix_t *u)
{
    su3_complex_t *a = u->e[0], *b = u->e[1], *c = u->e[2], overlap = su3_c(0, 0);
    su3_normalise_row(a);
    for (int j = 0; j < SU3_COLOURS; j++)
        overlap = su3_c_mul_add(overlap, su3_c_conj(a[j]), b[j]);
    for (int j = 0; j < SU3_COLOURS; j++)
        b[j] = su3_c_sub(b[j], su3_c_mul(overlap, a[j]));
    su3_normalise_row(b);
    for (int j = 0; j < SU3_COLOURS; j++) {
        int k = (j + 1) % SU3_COLOURS, l = (j + 2) % SU3_COLOURS;
        c[j] = su3_c_conj(su3_c_sub(su3_c_mul(a[k], b[l]), su3_c_mul(a[l], b[k])));
    }
}

/* A matrix as it lies in a configuration file: 18 floats. */
SU3_CALL su3_matrix_t su3_from_floats(const float *f)
{
    su3_matrix_t m;
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++)
            m.e[i][j] = su3_c(f[2 * (SU3_COLOURS * i + j)], f[2 * (SU3_COLOURS * i + j) + 1]);
    return m;
}

SU3_CALL void su3_to_floats(const su3_matrix_t *m, float *f)
{
    for (int i = 0; i < SU3_COLOURS; i++)
        for (int j = 0; j < SU3_COLOURS; j++) {
            f[2 * (SU3_COLOURS * i + j)] = (float)m->e[i][j].re;
            f[2 * (SU3_COLOURS * i + j) + 1] = (float)m->e[i][j].im;
        }
}

#endif
