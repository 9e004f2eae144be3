#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/host/model/proc_table.h"
#include "agent/host/ownership/pair_terms.h"
#include "common/bus/bus.h"

namespace meshbus::host {

/// Checks that the services of a host agent share. A check that fails has refused the request.
class RequestChecks {
 public:
  RequestChecks(Bus& bus, ProcTable& table, const PairTerms& terms, std::string host)
      : bus_(bus), table_(table), terms_(terms), host_(std::move(host)) {}

  /// The mesh of a request.
  Mesh* find_mesh(const Request& request, const flatbuffers::String* name);
  /// The peer that a request names in `field`, which must be the sender.
  std::optional<ProcId> find_sender(const Request& request, const flatbuffers::String* claimed,
                                    std::string_view field);
  /// The live proc that sent this, which must be the proc that it says it is.
  Proc* find_proc(const Request& request, const flatbuffers::String* claimed);

  /// Whether the sender may give an order under that term (null: it is of no pair).
  bool may_order(const Request& request, const wire::Term* term);

  void ack(const Request& request);
  void refuse(const Request& request, const Error& error) { bus_.refuse(request, error); }
  /// For people.
  const std::string& host() const noexcept { return host_; }

 private:
  Bus& bus_;
  ProcTable& table_;
  const PairTerms& terms_;
  std::string host_;
};

/// Whether that peer has sent this.
bool is_sender(const wire::Envelope& envelope, const ProcId& peer);

/// A row for a table of handlers: the service exists by the time the first message comes.
template <typename Service, typename Message>
auto row(const std::unique_ptr<Service>& service,
         void (Service::*handler)(const Request&, const Message&)) {
  return [&service, handler](const Request& request, const Message& message) {
    (service.get()->*handler)(request, message);
  };
}

/// A word for people, which is kept, and sent, once for each rank: too short to carry data.
std::string short_text(const flatbuffers::String* text);

/// Ranks of a request: without an end, because another host may have more of them.
inline constexpr std::uint64_t kAnyRank = UINT64_MAX;

}  // namespace meshbus::host
