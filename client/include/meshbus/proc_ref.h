#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "meshbus/address.h"
#include "meshbus/context.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"

namespace [[gnu::visibility("default")]] meshbus {

/// Names one proc. A plain value: copy it, print its id, send it to another process. Keeps nothing
/// alive.
class ProcRef {
 public:
  explicit ProcRef(ProcId id) : id_(std::move(id)) {}  ///< Any proc, whether it is there or not.
  /// `tcp:h1:7420,trainers_3-13Se1Maqzryj`
  const ProcId& id() const noexcept { return id_; }

  /// Context::call and Context::send to this proc; errors as there.
  Result<std::string> call(Context& context, std::uint32_t port, std::string_view body,
                           std::chrono::milliseconds deadline = std::chrono::seconds(30)) const {
    return context.call(id_, port, body, deadline);
  }
  /// Context::call_async to this proc.
  void call_async(Context& context, std::uint32_t port, std::string_view body, AsyncOptions options,
                  AnswerHandler handler) const {
    context.call_async(id_, port, body, std::move(options), std::move(handler));
  }
  Result<void> send(Context& context, std::uint32_t port, std::string_view body) const {
    return context.send(id_, port, body);
  }
  Result<void> send(Context& context, std::uint32_t port, const SharedBody& body) const {
    return context.send(id_, port, body);
  }

  friend auto operator<=>(const ProcRef&, const ProcRef&) = default;
  friend bool operator==(const ProcRef&, const ProcRef&) = default;

 private:
  ProcId id_;
};

}  // namespace meshbus
