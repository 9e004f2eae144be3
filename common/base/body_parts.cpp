#include "meshbus/body_parts.h"

#include <utility>

#include "meshbus/large_text.h"

namespace meshbus {
namespace {

std::string text_of(const BodyParts& parts) {
  std::string text;
  reserve_large(text, parts.size());
  for (const auto piece : parts.pieces()) text.append(piece);
  return text;
}

}  // namespace

std::string_view BodyParts::gathered(std::string& storage) const {
  if (many_.size() == 1) return many_.front();
  storage = text_of(*this);
  return storage;
}

SharedBody BodyParts::hold(bool is_sealed) const {
  if (shared_ != nullptr && (shared_->descriptor() >= 0 || !is_sealed)) return *shared_;
  return is_sealed ? SharedBody::gather(pieces()) : SharedBody::of(text_of(*this));
}

}  // namespace meshbus
