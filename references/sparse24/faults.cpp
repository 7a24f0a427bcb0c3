#include "references/sparse24/faults.hpp"

#include "references/quantize/fault_table.hpp"

namespace parity::sparse24 {
namespace {

const quantize::FaultTable<Defect>& table() {
  static const quantize::FaultTable<Defect> rows = {
      {Defect::TiesLow, {"P-24-ties", "", "the other element of a tie is kept"}},
      {Defect::OtherOrder,
       {"P-24-magnitude", "", "elements ordered by signed value for magnitude, or the reverse"}},
      {Defect::KeepsThree, {"P-24-three", "", "three of four are kept"}},
      {Defect::NotReordered,
       {"P-24-layout", "", "metadata in plain order: another back end's layout (pytorch #109175)"}},
      {Defect::IndicesSwapped, {"P-24-swapped", "", "the two indices of a group change places"}},
      {Defect::WrongSecond,
       {"P-24-second", "", "second index of a group with one non-zero taken as its first"}},
      {Defect::Unvalidated,
       {"P-24-unvalidated", "", "three non-zeros of four pass for 2:4 (pytorch #159872)"}},
      {Defect::ZerosPositive, {"P-24-zero-sign", "", "pruned elements are +0 where x m gives -0"}},
      {Defect::NotQuieted, {"P-24-quiet", "", "halves of f32 carried over as they are"}},
  };
  return rows;
}

}  // namespace

Defect defect_of(std::string_view fault) { return table().defect(fault); }
std::vector<FaultDef> faults_of(const std::vector<Defect>& defects) {
  return table().faults(defects);
}

}  // namespace parity::sparse24
