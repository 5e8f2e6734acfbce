// SPDX-License-Identifier: Apache-2.0
// The public pages say what the code does: their tables are read and compared with the tables in the code.
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include <lanemq/admin_table.hpp>
#include <lanemq/error_table.hpp>

#include "common/protocol/src/field_table.hpp"
#include "tests/support/protocol_pages.hpp"

namespace lanemq {
namespace {

using wire::FieldSpec;
using wire::FieldType;

using Row = std::vector<std::string>;
/// The rows below each heading, the headings as "chapter/section".
using Page = std::map<std::string, std::vector<Row>>;

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Row cells(const std::string& line) {
  Row row;
  std::istringstream rest(line.substr(1));
  for (std::string cell; std::getline(rest, cell, '|');)
    row.push_back(trimmed(cell));
  return row;
}

Page read_page() {
  std::istringstream file(test::protocol_pages(LANEMQ_PAGES));
  Page page;
  std::string chapter, section;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) {
      chapter = line.substr(3);
      section.clear();
    } else if (line.starts_with("### ")) {
      section = line.substr(4);
      page[chapter + "/" + section];
    } else if (line.starts_with("| `")) {
      page[chapter + "/" + section].push_back(cells(line));
    }
  }
  return page;
}

/// Whether the page calls a text of these bounds a name.
bool is_name(const FieldSpec& spec) {
  return spec.min == 1 && spec.max == 128;
}

std::string type_on_page(const FieldSpec& spec) {
  switch (spec.type) {
    case FieldType::text:
      return is_name(spec) ? "name" : "text";
    case FieldType::integer:
    case FieldType::unsigned_integer:
    case FieldType::optional_integer:
      return "int";
    case FieldType::boolean:
    case FieldType::optional_boolean:
      return "flag";
    case FieldType::reference:
      return "int or text";
    case FieldType::text_list:
      return "list of text";
    case FieldType::lease_list:
      return "list";
    case FieldType::cost:
    case FieldType::usage:
    case FieldType::limits:
      return "map";
    case FieldType::raw:
      return "any";
  }
  return {};
}

std::string limit_on_page(const FieldSpec& spec) {
  const std::string range = std::to_string(spec.min) + " to " + std::to_string(spec.max);
  switch (spec.type) {
    case FieldType::text:
      return is_name(spec) ? "" : range + " bytes";
    case FieldType::integer:
    case FieldType::unsigned_integer:
    case FieldType::optional_integer:
      if (spec.max != std::numeric_limits<std::int64_t>::max()) return range;
      return spec.min == 0 ? "" : "at least " + std::to_string(spec.min);
    case FieldType::reference:
      return "up to " + std::to_string(spec.max) + " bytes";
    case FieldType::text_list:
      return range + " entries";
    case FieldType::lease_list:
      return "the header's size";
    case FieldType::cost:
    case FieldType::usage:
    case FieldType::limits:
      return "int values";
    default:
      return "";
  }
}

/// Whether the default is said too: no value of the field is left out.
bool always_said(const FieldSpec& spec) {
  return spec.type == FieldType::integer && !spec.required && spec.fallback < spec.min;
}

/// The fields of a row by their names; one row may have several. One that is there stays.
void add_fields(const Row& row, std::map<std::string, Row>& rows) {
  if (row.size() != 3) return;
  std::istringstream names(row[0]);
  for (std::string name; std::getline(names, name, ',');)
    rows.emplace(trimmed(name), row);
}

template <class Message>
void compare(const Page& page, const std::string& chapter) {
  const wire::OpSpec& op = wire::Spec<Message>::op;
  const std::string heading = chapter + "/" + std::string(op.name);
  SCOPED_TRACE(heading);
  ASSERT_TRUE(page.contains(heading)) << "no such heading";
  std::map<std::string, Row> rows;
  for (const Row& row : page.at(heading))
    add_fields(row, rows);
  // What stands before a chapter's ops is of those that it names, or of each.
  if (const auto common = page.find(chapter + "/"); common != page.end())
    for (const Row& row : common->second) {
      const std::string ops = row.back().substr(0, row.back().find(':'));
      if (ops == "of each op" || ops.find("`" + std::string(op.name) + "`") != std::string::npos)
        add_fields(row, rows);
    }
  for (const FieldSpec& spec : op.fields) {
    SCOPED_TRACE(std::string(spec.name));
    const auto found = rows.find("`" + std::string(spec.name) + "`");
    ASSERT_NE(found, rows.end()) << "the page does not know the field";
    const std::string& type = found->second[1];
    // A field that passes through may be described by what is put into it.
    if (spec.type != FieldType::raw) {
      const std::string limit = limit_on_page(spec);
      const std::string expected = type_on_page(spec) + (limit.empty() ? "" : ", " + limit);
      EXPECT_TRUE(type == expected || type == expected + ", required" || type == expected + ", always" ||
                  type.starts_with(expected + " = "))
          << type << " not " << expected;
    }
    EXPECT_EQ(type.ends_with(", required"), spec.required) << type;
    EXPECT_EQ(type.ends_with(", always"), always_said(spec)) << type;
    rows.erase(found);
  }
  EXPECT_EQ(rows.erase("`x-…`"), op.extras ? 1u : 0u);
  for (const auto& [name, row] : rows)
    ADD_FAILURE() << "the code does not know the field " << name;
}

template <class... Messages>
void compare_all(const Page& page, const std::string& chapter, std::variant<Messages...>*) {
  (compare<Messages>(page, chapter), ...);
}

TEST(Page, describes_every_op_and_field_as_the_code_has_it) {
  const Page page = read_page();

  compare_all(page, "Client to broker", static_cast<wire::ClientRequest*>(nullptr));
  compare_all(page, "Broker to client", static_cast<wire::ClientReply*>(nullptr));
  compare_all(page, "Worker to broker", static_cast<wire::WorkerReport*>(nullptr));
  compare_all(page, "Broker to worker", static_cast<wire::WorkerCommand*>(nullptr));
}

TEST(Page, lists_the_error_codes_of_the_code) {
  const std::vector<Row> rows = read_page()["Error codes/"];

  ASSERT_EQ(rows.size(), error_table().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto code = error_code(rows[i][0].substr(1, rows[i][0].size() - 2));
    ASSERT_TRUE(code.has_value()) << rows[i][0];
    const ErrorInfo& info = error_info(*code);
    EXPECT_EQ(rows[i][1], std::to_string(info.http_status)) << info.name;
    EXPECT_EQ(rows[i][2] == "yes", info.says_when_to_retry) << info.name;
  }
}

TEST(Page, lists_the_verbs_of_operators_as_the_code_has_them) {
  const auto names = [](std::string_view fields) {
    std::string list = fields.empty() ? "" : "`";
    for (const char c : fields)
      list += c == ' ' ? std::string("`, `") : std::string(1, c);
    return fields.empty() ? list : list + "`";
  };
  std::vector<Row> rows;
  const Page page = read_page();
  for (const Row& row : page.at("Operating the broker/"))
    if (row.size() == 4) rows.push_back(row);

  ASSERT_EQ(rows.size(), admin_table().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AdminInfo& info = admin_table()[i];
    EXPECT_EQ(rows[i],
              (Row{names(info.name), names(info.needs), names(info.takes), std::string(info.meaning)}));
  }
}

TEST(Page, lists_what_a_worker_is_refused_with_as_the_code_has_it) {
  std::vector<Row> rows;
  const Page page = read_page();
  for (const Row& row : page.at("Broker to worker/error"))
    if (row.size() == 2) rows.push_back(row);

  const std::vector<Row> expected{
#define LANEMQ_REFUSAL_ROW(code, meaning) Row{"`" #code "`", meaning},
      LANEMQ_REFUSAL_TABLE(LANEMQ_REFUSAL_ROW)
#undef LANEMQ_REFUSAL_ROW
  };
  EXPECT_EQ(rows, expected);
}

TEST(Page, lists_the_classes_of_errors_of_the_code) {
  std::vector<std::string> classes;
  const Page page = read_page();
  for (const Row& row : page.at("Worker to broker/error"))
    if (row.size() == 2) classes.push_back(row[0].substr(1, row[0].size() - 2));

  EXPECT_EQ(classes.size(), 7u);
  for (const std::string& name : classes)
    EXPECT_TRUE(error_class(name).has_value()) << name;
}

}  // namespace
}  // namespace lanemq
