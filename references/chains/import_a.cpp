#include "references/chains/import_a.hpp"

#include <sstream>

#include "harness/failure.hpp"
#include "references/quantize/rht.hpp"

namespace parity::quantize {

void import_groups(const StoredCase& stored, ImportedCase& imported) {
  const std::int64_t rows = imported.problem.sizes["M"];
  Size size{.name = "M", .extent = rows};
  std::int64_t first = 0;
  for (const double end : stored.read("inputs/offsets").widened()) {
    const auto last = static_cast<std::int64_t>(end);
    if (last < first || last > rows)
      throw GoldenError(stored.file + ": " + stored.name + ": offsets do not ascend within x");
    size.parts.push_back(last - first);
    first = last;
  }
  if (first != rows) imported.unsupported = "rows of x that belong to no group";
  imported.problem.sizes.set(std::move(size));
}

void import_signs(const StoredCase& stored, ImportedCase& imported, const std::string& text) {
  const Signs te = signs_of(kTeSigns);
  std::vector<double> signs(te.begin(), te.end());
  if (!text.empty()) {
    signs.clear();
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');)
      signs.push_back(word.find('-') == std::string::npos ? 1 : -1);
  }
  if (signs.size() != 16)
    throw GoldenError(stored.file + ": " + stored.name + ": a sign vector has 16 entries");
  TensorSpec spec = vector_spec("signs", 16);
  spec.role = Role::Input;
  imported.inputs.add(make_tensor(std::move(spec), signs));
}

}  // namespace parity::quantize
