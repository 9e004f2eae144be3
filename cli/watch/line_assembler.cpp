#include "cli/watch/line_assembler.h"

#include <algorithm>

namespace meshbus::cli {

void LineAssembler::add(const LogPiece& piece) {
  Open& open = open_[{piece.rank, piece.stream}];
  open.line.rank = piece.rank;
  open.line.stream = piece.stream;
  if (piece.missed > 0) {
    if (!std::exchange(open.is_begun, true)) open.line.offset = piece.offset - piece.missed;
    open.line.missed += piece.missed;
    open.line.text += "[" + std::to_string(piece.missed) + " bytes missed]";
  }
  open.next = piece.offset;
  for (auto bytes = piece.bytes; !bytes.empty();) {
    const auto newline = bytes.find('\n');
    append(open, bytes.substr(0, newline));
    if (newline == std::string_view::npos) break;
    ++open.next;
    end(open);
    bytes.remove_prefix(newline + 1);
  }
  if (!piece.is_last) return;
  if (open.is_begun) end(open);
  open_.erase({piece.rank, piece.stream});
}

void LineAssembler::append(Open& open, std::string_view bytes) {
  if (!std::exchange(open.is_begun, true)) open.line.offset = open.next;
  open.next += bytes.size();
  const auto taken = std::min<std::uint64_t>(kMaxLine - open.kept, bytes.size());
  open.line.text.append(bytes.substr(0, static_cast<std::size_t>(taken)));
  open.kept += taken;
  open.cut += bytes.size() - taken;
}

void LineAssembler::end(Open& open) {
  if (open.cut > 0) open.line.text += "[" + std::to_string(open.cut) + " bytes cut]";
  sink_(std::exchange(
      open.line,
      {.rank = open.line.rank, .stream = open.line.stream, .offset = 0, .missed = 0, .text = {}}));
  open.kept = open.cut = 0;
  open.is_begun = false;
}

void LineAssembler::finish() {
  for (auto& [id, open] : open_) {
    if (open.is_begun) end(open);
  }
}

}  // namespace meshbus::cli
