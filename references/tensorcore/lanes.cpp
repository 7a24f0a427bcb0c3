#include "references/tensorcore/lanes.hpp"

#include "harness/dtype.hpp"

namespace parity::tensorcore {
namespace {
#include "references/tensorcore/lanes.inl"
}  // namespace

void run_lanes_plain(const LaneJob& job, const LaneRow* rows, int count) { run(job, rows, count); }

}  // namespace parity::tensorcore
