#pragma once

#include <string>
#include <vector>

namespace meshbus::test {

/// Something that travels or is stored, with fixed contents, as this build writes it.
struct WireSample {
  /// A Control, a frame, or a table of another name that is a whole by itself.
  enum class Form { control, frame, table };
  /// The name of its golden file. For a control message it is the name of the message, with ".2"
  /// and so on behind it for further ones.
  std::string name;
  Form form;
  std::string bytes;
  /// The name of the table, for Form::table.
  std::string table = {};
};

/// One of each, so that every field of every table is set in one of them to something else than its
/// default. What has golden bytes is never changed: a field that is added later gets another sample
/// (schemas/released/README.md).
std::vector<WireSample> wire_samples();

}  // namespace meshbus::test
