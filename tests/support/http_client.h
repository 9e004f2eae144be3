#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::test {

/// A response as it came.
struct HttpAnswer {
  int status = 0;  ///< 0: the connection ended without one.
  std::string head;
  std::string body;
};

/// A connection to an HTTP server at "http://HOST:PORT" or "unix:PATH" that sends whatever a test
/// wants. Throws when it cannot connect.
class HttpClient {
 public:
  explicit HttpClient(const std::string& url);

  /// False: the server has closed the connection.
  bool send(std::string_view bytes);
  /// Reads until the response is there as a whole, the server closes, or the deadline.
  HttpAnswer read_all(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  /// Reads until the text has come. False: it did not come in time.
  bool read_until(std::string_view text, std::chrono::milliseconds deadline);
  /// All that has come.
  const std::string& received() const { return received_; }
  /// Whether the server closes the connection in time; what comes before is kept.
  bool is_closed_within(std::chrono::milliseconds deadline);

 private:
  /// One read. False: closed, or nothing came in time.
  bool read_some(std::chrono::steady_clock::time_point until);

  UniqueFd socket_;
  std::string received_;
  bool is_closed_ = false;
};

/// GET of that path with these further header lines ("Name: value").
HttpAnswer http_get(const std::string& url, const std::string& path,
                    const std::vector<std::string>& headers = {});

}  // namespace meshbus::test
