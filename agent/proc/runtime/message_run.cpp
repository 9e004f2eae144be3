#include "agent/proc/runtime/message_run.h"

#include <algorithm>

#include "common/wire/frame.h"

namespace meshbus::mesh_proc {

void MessageRun::add(const ProcProgram::Handler& handler, const wire::Envelope& envelope,
                     Bytes body, const Point* point, const std::shared_ptr<const void>& frame) {
  if (frame && (frames_.empty() || frames_.back() != frame)) frames_.push_back(frame);
  count(body.size());
  messages_.emplace_back(&handler, envelope, body, point, frame ? frames_.size() - 1 : kNoFrame);
}

void MessageRun::add_waiting(const wire::Envelope& envelope) {
  count(0);
  messages_.emplace_back(nullptr, envelope, Bytes(), nullptr, kNoFrame);
}

void MessageRun::count(std::size_t body) {
  if (messages_.size() == 1) messages_.reserve(kMost);
  // Larger bodies are counted where they were put together (ChunkStore).
  bytes_ += sizeof(Message) + std::min(body, kBodyLimit);
}

void MessageRun::reset() {
  messages_.clear();
  frames_.clear();
  points_.clear();
  bytes_ = told_ = 0;
  taken_ = 0;
  is_over_ = false;
}

MessageRun& MessageRuns::open() {
  if (open_ == nullptr)
    open_ = spare_ == nullptr ? std::make_shared<MessageRun>() : std::exchange(spare_, nullptr);
  return *open_;
}

std::shared_ptr<MessageRun> MessageRuns::close() {
  untaken_ += open_->size();
  runs_.push_back(std::exchange(open_, nullptr));
  return runs_.back();
}

void MessageRuns::drop_last() {
  untaken_ -= runs_.back()->size();
  runs_.pop_back();
}

void MessageRuns::recycle() {
  auto over = std::move(runs_.front());
  runs_.pop_front();
  // The task that ran it may still hold it for a moment.
  if (spare_ != nullptr || over.use_count() > 1) return;
  over->reset();
  spare_ = std::move(over);
}

}  // namespace meshbus::mesh_proc
