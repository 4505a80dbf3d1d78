/* The long-run loop of the simulator in C: one exponential gap and its accounting a failure.
 * xoshiro256** (Blackman and Vigna 2018) seeded by splitmix64, the C library's logarithm.
 * Usage: failure_loop FAILURES; prints nanoseconds a failure and the sums. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t state[4];

static uint64_t splitmix64(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline uint64_t next(void) {
    const uint64_t result = rotl(state[1] * 5, 7) * 9;
    const uint64_t t = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= t;
    state[3] = rotl(state[3], 45);
    return result;
}

int main(int argc, char **argv) {
    const long failures = argc > 1 ? atol(argv[1]) : 20000000L;
    /* The first post's job at 16,384 GPUs, asynchronous saves that wait, k = 53. */
    const double mtbf = 50000.0 * 3600.0 / 16384.0, work = 53 * 7.0, taxed = 210.0, tax = 0.03;
    const double stop = 0.0, restart = 0.0, first_save = work;
    const double slow = 1.0 + tax, period = work + stop + tax * taxed;
    const double durable_rest = stop + taxed * slow, durable_periods = 0.0;
    uint64_t seed = 1;
    for (int i = 0; i < 4; i++) state[i] = splitmix64(&seed);

    struct timespec a, b;
    double up = 0.0, saves = 0.0, progress = 0.0, gaps = 0.0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long f = 0; f < failures; f++) {
        const double u = ((double)(next() >> 12) + 0.5) * 0x1p-52;
        const double gap = -mtbf * log(u);
        const double x = gap > restart ? gap - restart : 0.0;
        const double since = x - first_save;
        double n = 0.0, p = x;
        if (since >= 0.0) {
            const double started = floor(since / period);
            const double phase = since - started * period;
            n = started - durable_periods + (phase >= durable_rest ? 1.0 : 0.0);
            if (n < 0.0) n = 0.0;
            double running = phase - stop;
            if (running < 0.0) running = 0.0;
            double inside = running / slow;
            if (inside > taxed) inside = taxed;
            if (running > taxed * slow) inside += running - taxed * slow;
            p = first_save + started * work + inside;
        }
        gaps += gap;
        up += x;
        saves += n;
        progress += p;
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    const double ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / failures;
    printf("%.4f %.17g %.17g %.17g %.17g\n", ns, gaps / failures, up / failures,
           saves * work / failures, progress / failures);
    return 0;
}
