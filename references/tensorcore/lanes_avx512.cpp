#include "harness/dtype.hpp"
#include "references/tensorcore/lanes.hpp"

namespace parity::tensorcore {
namespace {
#include "references/tensorcore/lanes.inl"
}  // namespace

void run_lanes_avx512(const LaneJob& job, const LaneRow* rows, int count) { run(job, rows, count); }

}  // namespace parity::tensorcore
