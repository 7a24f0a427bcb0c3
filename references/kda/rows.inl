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

void decay(double* row, double a, double k, double w, double* r, double* norm, std::size_t V) {
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack x, y, z;
    load(x, row + v), load(y, r + v), load(z, norm + v);
    x *= a;
    y += k * x;
    const Pack weighted = w * x;
    z += weighted * weighted;
    store(row + v, x), store(r + v, y), store(norm + v, z);
  }
  for (; v < V; ++v) {
    row[v] *= a;
    r[v] += k * row[v];
    norm[v] += (w * row[v]) * (w * row[v]);
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

double adjoint(double* lam, const double* state, double q, double k, double w, const double* d_o,
               double* du, double* norm, std::size_t V) {
  Pack sum = {};
  double tail = 0;
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack x, s, c, y, z;
    load(x, lam + v), load(s, state + v), load(c, d_o + v), load(y, du + v), load(z, norm + v);
    sum += s * c;
    x += q * c;
    y += k * x;
    const Pack weighted = w * x;
    z += weighted * weighted;
    store(lam + v, x), store(du + v, y), store(norm + v, z);
  }
  for (; v < V; ++v) {
    tail += state[v] * d_o[v];
    lam[v] += q * d_o[v];
    du[v] += k * lam[v];
    norm[v] += (w * lam[v]) * (w * lam[v]);
  }
  return total(sum, tail);
}

BackwardSums close(double* lam, const double* state, double a, double k, const double* u,
                   const double* de, const double* A, const double* M, std::size_t V) {
  Pack lam_u = {}, state_de = {}, d_state = {}, abs_d_state = {}, lam_error = {}, state_error = {};
  BackwardSums tail;
  std::size_t v = 0;
  for (; v + kLanes <= V; v += kLanes) {
    Pack x, s, y, e, wa, wm;
    load(x, lam + v), load(s, state + v), load(y, u + v), load(e, de + v), load(wa, A + v),
        load(wm, M + v);
    lam_u += x * y;
    state_de += s * e;
    const Pack d = x - k * e;
    Pack ds = d * s;
    d_state += ds;
    absolute(ds);
    abs_d_state += ds;
    const Pack from_lam = wa * s, from_state = wm * d;
    lam_error += from_lam * from_lam;
    state_error += from_state * from_state;
    store(lam + v, a * d);
  }
  for (; v < V; ++v) {
    tail.lam_u += lam[v] * u[v];
    tail.state_de += state[v] * de[v];
    const double d = lam[v] - k * de[v], ds = d * state[v];
    tail.d_state += ds;
    tail.abs_d_state += ds < 0 ? -ds : ds;
    tail.lam_error += (A[v] * state[v]) * (A[v] * state[v]);
    tail.state_error += (M[v] * d) * (M[v] * d);
    lam[v] = a * d;
  }
  return {total(lam_u, tail.lam_u),         total(state_de, tail.state_de),
          total(d_state, tail.d_state),     total(abs_d_state, tail.abs_d_state),
          total(lam_error, tail.lam_error), total(state_error, tail.state_error)};
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
