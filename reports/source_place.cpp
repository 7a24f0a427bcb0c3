#include "reports/source_place.hpp"

#include "harness/plugin_kernels.hpp"
#include "harness/registry.hpp"
#include "harness/source_path.hpp"

namespace parity::reports {

std::optional<SourcePlace> place_of_kernel(const CaseRecord& record) {
  const KernelDef* kernel = registry().kernel(record.kernel);
  if (!kernel || !plugin_of(kernel->name).empty()) return std::nullopt;  // not in this repository
  return SourcePlace{.file = std::string(in_repository(kernel->where.file_name())),
                     .line = kernel->where.line()};
}

}  // namespace parity::reports
