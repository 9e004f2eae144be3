#include "common/bus/data_inbox.h"

#include <utility>

namespace meshbus {

void DataInbox::push(std::vector<MessagePart> parts, const FrameReader& reader) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  frames_.push_back(std::make_shared<Received>(std::move(parts), reader, bytes));
  bytes_ += bytes;
}

void DataInbox::clear() {
  ++generation_;
  frames_.clear();
  bytes_ = 0;
}

}  // namespace meshbus
