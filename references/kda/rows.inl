// Included by rows*.cpp inside an anonymous namespace. Eight lanes whatever the instruction set;
// the tail goes to lane 0.

using Pack = double __attribute__((vector_size(64)));
constexpr std::size_t kLanes = 8;

inline __attribute__((always_inline)) void load(Pack& p, const double* x) {
  __builtin_memcpy(&p, x, sizeof p);
}
inline __attribute__((always_inline)) void store(double* x, const Pack& p) {
  __builtin_memcpy(x, &p, sizeof p);
}
inline __attribute__((always_inline)) double total(const Pack& p, double tail) {
  return tail + (((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7])));
}
inline __attribute__((always_inline)) void absolute(Pack& p) {
  const Pack negative = -p;
  p = p < 0 ? negative : p;
}

void decay(double* row, double a, double k, double w, double x, double* r, double* kept,
           double* read, std::size_t V) {
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack s, y, m, n;
    load(s, row + v), load(y, r + v), load(m, kept + v), load(n, read + v);
    s *= a;
    y += k * s;
    const Pack square = s * s;
    m += (w * w) * square;
    n += (x * x) * square;
    store(row + v, s), store(r + v, y), store(kept + v, m), store(read + v, n);
  }
  for (; v < V; ++v) {
    row[v] *= a;
    r[v] += k * row[v];
    const double square = row[v] * row[v];
    kept[v] += (w * w) * square;
    read[v] += (x * x) * square;
  }
}

void write(double* row, double k, const double* u, double q, double* o, std::size_t V) {
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack x, y, z;
    load(x, row + v), load(y, u + v), load(z, o + v);
    x += k * y;
    z += q * x;
    store(row + v, x), store(o + v, z);
  }
  for (; v < V; ++v) {
    row[v] += k * u[v];
    o[v] += q * row[v];
  }
}

void add(double* row, double k, const double* u, std::size_t V) {
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack x, y;
    load(x, row + v), load(y, u + v);
    x += k * y;
    store(row + v, x);
  }
  for (; v < V; ++v) row[v] += k * u[v];
}

double adjoint(double* lam, const double* state, double q, double k, double w, double x,
               const double* d_o, double* du, double* kept, double* read, std::size_t V) {
  Pack sum = {};
  double tail = 0;
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack l, s, c, y, m, n;
    load(l, lam + v), load(s, state + v), load(c, d_o + v), load(y, du + v), load(m, kept + v),
        load(n, read + v);
    sum += s * c;
    l += q * c;
    y += k * l;
    const Pack square = l * l;
    m += (w * w) * square;
    n += (x * x) * square;
    store(lam + v, l), store(du + v, y), store(kept + v, m), store(read + v, n);
  }
  for (; v < V; ++v) {
    tail += state[v] * d_o[v];
    lam[v] += q * d_o[v];
    du[v] += k * lam[v];
    const double square = lam[v] * lam[v];
    kept[v] += (w * w) * square;
    read[v] += (x * x) * square;
  }
  return total(sum, tail);
}

BackwardSums close(double* lam, const double* state, double a, double k, const Columns& c,
                   std::size_t V) {
  Pack lam_u = {}, state_de = {}, lam_u_error = {}, state_de_error = {}, d_state = {},
       abs_d_state = {}, lam_error = {}, state_error = {};
  BackwardSums tail;
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack x, s, y, e, w;
    load(x, lam + v), load(s, state + v), load(y, c.u + v), load(e, c.de + v);
    lam_u += x * y;
    state_de += s * e;
    load(w, c.u_error + v);
    w *= x;
    lam_u_error += w * w;
    load(w, c.de_error + v);
    w *= s;
    state_de_error += w * w;
    const Pack d = x - k * e;
    Pack ds = d * s;
    d_state += ds;
    absolute(ds);
    abs_d_state += ds;
    load(w, c.A + v);
    w *= s;
    lam_error += w * w;
    load(w, c.M + v);
    w *= d;
    state_error += w * w;
    store(lam + v, a * d);
  }
  const auto square = [](double z) { return z * z; };
  for (; v < V; ++v) {
    tail.lam_u += lam[v] * c.u[v];
    tail.state_de += state[v] * c.de[v];
    tail.lam_u_error += square(lam[v] * c.u_error[v]);
    tail.state_de_error += square(state[v] * c.de_error[v]);
    const double d = lam[v] - k * c.de[v], ds = d * state[v];
    tail.d_state += ds;
    tail.abs_d_state += ds < 0 ? -ds : ds;
    tail.lam_error += square(c.A[v] * state[v]);
    tail.state_error += square(c.M[v] * d);
    lam[v] = a * d;
  }
  return {.lam_u = total(lam_u, tail.lam_u),
          .state_de = total(state_de, tail.state_de),
          .lam_u_error = total(lam_u_error, tail.lam_u_error),
          .state_de_error = total(state_de_error, tail.state_de_error),
          .d_state = total(d_state, tail.d_state),
          .abs_d_state = total(abs_d_state, tail.abs_d_state),
          .lam_error = total(lam_error, tail.lam_error),
          .state_error = total(state_error, tail.state_error)};
}

double dot(const double* x, const double* y, std::size_t V) {
  Pack sum = {};
  double tail = 0;
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack p, q;
    load(p, x + v), load(q, y + v);
    sum += p * q;
  }
  for (; v < V; ++v) tail += x[v] * y[v];
  return total(sum, tail);
}
