// How a composite reads stored cases: inputs and results by the op's own specs, under the names
// that the source gave them. Names of parts of a tensor carry a range behind the path
// (golden/slice.hpp).
#pragma once

#include <functional>
#include <string>

#include "harness/registry.hpp"

namespace parity::net {

// From our name of an input or parameter ("x", "params/wq.weight") to the path below "inputs/",
// "params/" or "outputs/" where the source keeps it; empty: it has none. Gradients of it are looked
// for under "grads/" by the same name.
using Rename = std::function<std::string(const std::string& ours)>;

// Fills inputs and results of an import whose problem is set; cotangents that the source lacks are
// zero. Throws GoldenError naming a path that is missing or has another number of elements.
void import_composite(const StoredCase&, const OpDef&, ImportedCase&, const Rename& = {});

// Dtype of the case: the attribute `dtype` (float64, float32, bfloat16).
Dtype stored_dtype(const StoredCase&);
std::int64_t stored_integer(const StoredCase&, const std::string& attribute,
                            std::int64_t otherwise);
double stored_real(const StoredCase&, const std::string& attribute, double otherwise);
std::string stored_text(const StoredCase&, const std::string& attribute,
                        const std::string& otherwise = {});
bool holds(const StoredCase&, std::string_view path);
std::vector<std::int64_t> stored_shape(const StoredCase&, const std::string& path);

}  // namespace parity::net
