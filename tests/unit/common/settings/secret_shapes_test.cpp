// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/secret_shapes.hpp"

#include <string>

#include <gtest/gtest.h>

#include "common/settings/usage_error.hpp"

namespace lanemq::settings {
namespace {

TEST(SecretShapes, of_a_key_the_beginning_remains) {
  const std::string key = "sk-proj-Ab12Cd34Ef56Gh78Ij90";
  const std::string curve = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";

  EXPECT_EQ(without_secrets(key), "sk-p...");
  EXPECT_EQ(without_secrets("what is \"" + key + "\"? see --help"), "what is \"sk-p...\"? see --help");
  EXPECT_EQ(without_secrets("--set a=" + key + ": no \"" + key + "\""), "--set a=sk-p...: no \"sk-p...\"");
  EXPECT_EQ(without_secrets("--key=" + curve), "--key=JTKV...");
  EXPECT_EQ(without_secrets("\"" + curve + "\""), "\"JTKV...\"");
  EXPECT_EQ(without_secrets("lanemq-2bdc6a08daa7c6087279c6f575483038d69632001723578205"), "lane...");
}

TEST(SecretShapes, of_a_url_user_and_password_go) {
  EXPECT_EQ(without_secrets("bad tcp://me:pass@10.0.0.1:5570"), "bad tcp://...@10.0.0.1:5570");
  EXPECT_EQ(without_secrets("https://a@b:c@host/x@y"), "https://...@host/x@y");
  EXPECT_EQ(without_secrets("https://host/x@y tcp://127.0.0.1:1"), "https://host/x@y tcp://127.0.0.1:1");
}

TEST(SecretShapes, of_a_query_the_values_of_secrets_go) {
  EXPECT_EQ(without_secrets("https://host/x?api_key=short&a=1&Token=b#c"),
            "https://host/x?api_key=...&a=1&Token=...#c");
  EXPECT_EQ(without_secrets("\"https://host/x?v=2&sig=ab%20c\" is bad"),
            "\"https://host/x?v=2&sig=...\" is bad");
  EXPECT_EQ(without_secrets("https://host/x?key="), "https://host/x?key=...");
  EXPECT_EQ(without_secrets("https://host/x?monkey=a&key_id=b&keys"),
            "https://host/x?monkey=a&key_id=b&keys");
}

TEST(SecretShapes, of_a_connection_string_passwords_go) {
  for (const auto& [said, shown] : std::initializer_list<std::pair<const char*, const char*>>{
           {"postgres:host=a password=geheim user=x", "postgres:host=a password=... user=x"},
           {"postgres:password = 'ge heim' host=a", "postgres:password = ... host=a"},
           {"postgres:password='ge\\'heim' sslpassword=geheim", "postgres:password=... sslpassword=..."},
           {"postgres:password='geheim", "postgres:password=..."},
           {"postgres:password=", "postgres:password=..."},
           {"postgres:host=password", "postgres:host=password"},
           {"postgres://x:geheim@a:5432/y", "postgres://x:...@a:5432/y"},
           {"postgres://x:ge:h@im@a/y", "postgres://x:...@a/y"},
           {"postgresql://x:ge/he/im@a:1/y?port=2", "postgresql://x:...@a:1/y?port=2"},
           {"postgres:x:ge/heim@a/y", "postgres:x:...@a/y"},
           {"postgres://x@a/y?sslmode=disable&password=geheim&port=1",
            "postgres://x@a/y?sslmode=disable&password=...&port=1"},
           {"postgres://a/y?pass%77ord=geheim", "postgres://a/y?pass%77ord=..."},
           {"postgres:host=a,b dbname=lanemq passfile=/etc/lanemq/pgpass",
            "postgres:host=a,b dbname=lanemq passfile=/etc/lanemq/pgpass"},
           {"sqlite:/var/lib/lanemq/lanemq.db", "sqlite:/var/lib/lanemq/lanemq.db"},
           {"postgres:host=a PASSWORD=geheim oauth_client_secret = 'ge heim' pass=x scram_client_key=y z=1",
            "postgres:host=a PASSWORD=... oauth_client_secret = ... pass=... scram_client_key=... z=1"},
           {"postgres:options='-c a=password=b' host=c", "postgres:options='-c a=password=b' host=c"},
           {"memory", "memory"},
           {"", ""}})
    EXPECT_EQ(without_passwords(said), shown);
}

TEST(SecretShapes, what_names_the_thing_remains) {
  for (const std::string text :
       {"", "lane \"bulk-processing-2026\" is not known",
        "/etc/lanemq/keys.d/customer0123456789abcdef.toml:3",
        "connections_per_address_max: must be 1..1000000, not \"20000000000000000000\"",
        "LANEMQ_GATEWAY_IDEMPOTENCY_RETAIN_2", "tcp://ip-10-0-0-12.eu-west-1.compute.internal:5570",
        "2026-11-24T03:09:35.747+00:00 and 127.0.0.1:5570, see docs/guides/scale-workers.md",
        "clients_endpoint, workers_endpoint, admin_endpoint, store_backlog_max"})
    EXPECT_EQ(without_secrets(text), text);
}

TEST(SecretShapes, of_a_configuration_sources_and_urls_go_and_names_remain) {
  const std::string secret = "Ab12Cd34Ef56Gh78Ij90Kl", ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
  const std::string kept = "# " + secret + "\nsha256 = \"" + std::string(64, 'a') + "1\"\nbroker_key = \"" +
                           secret + "\"\nname = \"" + ulid + "\"\n[clients.\"" + ulid +
                           "\"]\n\nstore = \"postgres://y:...@h/x\"\n";
  EXPECT_EQ(without_secrets_in_config(kept + "secret_key = \"" + secret +
                                      "\"\nbroker = \"tcp://u:x@h:1\"\nlast = 1"),
            kept + "secret_key = \"Ab12...\"\nbroker = \"tcp://...@h:1\"\nlast = 1");
}

TEST(SecretShapes, a_usage_error_repeats_none) {
  EXPECT_STREQ(UsageError("not \"sk-proj-Ab12Cd34Ef56Gh78Ij90\"").what(), "not \"sk-p...\"");
}

TEST(SecretShapes, take_time_by_the_length_alone) {
  for (const std::string part : {"=", "://", "a", "a1=", "-", "@", "/"}) {
    std::string text;
    while (text.size() < std::size_t{1} << 20)
      text += part;
    EXPECT_LE(without_secrets(text).size(), text.size());  // by the square it would not end
  }
}

}  // namespace
}  // namespace lanemq::settings
