#include "reports/stroke_font.hpp"

#include <algorithm>
#include <array>

namespace parity::reports {
namespace {

// From '!' on. Strokes are parted by ';', a point is x and y; y is 'a' and 'b' two and one below
// the line.
constexpr std::array<std::string_view, 94> kStrokes = {"0602;0000",
                                                       "0604;2624",
                                                       "1016;3036;0242;0444",
                                                       "45351605041333424130100126;2620",
                                                       "0046;0506161505;3031414030",
                                                       "40040516252412020110203042",
                                                       "0604",
                                                       "26150b2a",
                                                       "062514..0b",
                                                       "2622;0543;0345",
                                                       "0343;2521",
                                                       "100b",
                                                       "0232",
                                                       "0000",
                                                       "0b46",
                                                       "100105163645413010",
                                                       "152620;1030",
                                                       "05163645440040",
                                                       "0516364544332313;3342413010",
                                                       "30360242",
                                                       "46060333424130100001",
                                                       "451605011030414233130202",
                                                       "064610",
                                                       "13040516364544331302011030414233",
                                                       "0110304145361605041333",
                                                       "0000;0303",
                                                       "100b;1313",
                                                       "450341",
                                                       "0242;0444",
                                                       "054301",
                                                       "0516364523222;2020",
                                                       "413010010516364542322214242",
                                                       "002640;1232",
                                                       "0006364544330 3;3342413000",
                                                       "4536160501103041",
                                                       "00062645412000",
                                                       "46060040;0333",
                                                       "460600;0333",
                                                       "45361605011030414323",
                                                       "0006;4046;0343",
                                                       "1030;2026;1636",
                                                       "4641301001",
                                                       "0006;460340",
                                                       "060040",
                                                       "0006234640",
                                                       "00064046",
                                                       "100105163645413010",
                                                       "00063645443303",
                                                       "100105163645413010;2240",
                                                       "00063645443303;2340",
                                                       "453616050413334241301001",
                                                       "0646;2620",
                                                       "060110304146",
                                                       "062046",
                                                       "0610233046",
                                                       "0046;0640",
                                                       "062346;2320",
                                                       "06460040",
                                                       "261 6102 0",
                                                       "0640",
                                                       "0626200 0",
                                                       "042644",
                                                       "0b4b",
                                                       "0615",
                                                       "3430;3324140301102031",
                                                       "0600;0314243331201001",
                                                       "3324140301102031",
                                                       "3630;3324140301102031",
                                                       "0232332414030110203 1",
                                                       "36261510;0424",
                                                       "343b2a1a0b;3324140301102031",
                                                       "0600;0314243330",
                                                       "1410;1616",
                                                       "242b1a0b;2626",
                                                       "0600;340230",
                                                       "161120",
                                                       "0400;03142320;23344340",
                                                       "0400;0314243330",
                                                       "140301102031332414",
                                                       "040a;0314243331201001",
                                                       "343a;3324140301102031",
                                                       "0400;02142 4",
                                                       "33241403122231201001",
                                                       "16112030;0424",
                                                       "0401102031;3430",
                                                       "042044",
                                                       "0410233044",
                                                       "0430;0034",
                                                       "0420;441a",
                                                       "04340030",
                                                       "26150413022 0",
                                                       "060a",
                                                       "0615241302",
                                                       "03142334"};

}  // namespace

Glyph glyph(char c) {
  Glyph glyph;
  if (c == ' ') return {.advance = 4};
  const auto index = static_cast<std::size_t>(static_cast<unsigned char>(c)) - '!';
  const std::string_view text = index < kStrokes.size() ? kStrokes[index] : "0006464000";
  double right = 0;
  std::vector<Dot> stroke;
  std::string_view digits;
  char held = 0;
  const auto end = [&] {
    if (!stroke.empty()) glyph.strokes.push_back(stroke);
    stroke.clear();
    held = 0;
  };
  for (const char d : text) {
    if (d == ';') end();
    if (d == ';' || d == ' ' || d == '.') continue;
    if (!held) {
      held = d;
      continue;
    }
    const double y = d == 'a' ? -2 : d == 'b' ? -1 : d - '0';
    stroke.push_back({static_cast<double>(held - '0'), y});
    right = std::max(right, stroke.back().x);
    held = 0;
  }
  end();
  glyph.advance = right + 2;
  return glyph;
}

double text_width(std::string_view text) {
  double width = 0;
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x80) width += glyph(c).advance;
  return width;
}

}  // namespace parity::reports
