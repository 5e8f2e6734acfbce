// SPDX-License-Identifier: Apache-2.0
// Endpoints and keys, from arguments and the environment.
import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { capability } from "zeromq";

export const CLIENTS_ENDPOINT = "tcp://127.0.0.1:5570";
export const WORKERS_ENDPOINT = "tcp://127.0.0.1:5571";
const KEY_CHARS = 40;
const Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
const PKCS8_OF_X25519 = Buffer.from("302e020100300506032b656e04220420", "hex"); // what stands before a raw secret key

export const ENDPOINTS_MAX = 16;
const PORT_MAX = 65535;

/**
 * Where a broker is: an endpoint, or several, of which one is connected to at a time: a list, or a text with commas.
 * @typedef {string | readonly string[]} Brokers
 */
/**
 * Where a broker is, and what it is shown. Without `brokerKey`: no keys.
 * @typedef {{ endpoints: string[], brokerKey?: string, publicKey?: string, secretKey?: string }} Peer
 */
/** @typedef {Record<string, string | undefined>} Environment */
/** @typedef {{ broker?: Brokers, brokerKey?: string, secretKey?: string }} PeerOptions */

/**
 * A key itself, or from `file:PATH`, `env:VARIABLE` or systemd's `credential:NAME`. Throws an Error; no message repeats a key.
 * @param {string} source @param {Environment} environment
 */
export function readSecret(source, environment) {
  const colon = source.indexOf(":");
  let [kind, name] = colon < 0 ? [source, ""] : [source.slice(0, colon), source.slice(colon + 1)];
  if (kind === "env" && name) {
    const value = environment[name];
    if (value === undefined) throw new Error(`the variable ${name} of the key is not set`);
    return value.trim();
  }
  if (kind === "credential" && name) {
    const folder = environment.CREDENTIALS_DIRECTORY;
    if (!folder) throw new Error("credential:NAME needs $CREDENTIALS_DIRECTORY, which systemd sets");
    [kind, name] = ["file", join(folder, name)];
  }
  if (kind === "file" && name) return readFileSync(name, "utf8").trim();
  return source;
}

/**
 * Reads endpoints and keys. Throws an Error for endpoints or keys that are none, or where one of the two is missing.
 * @param {PeerOptions} options What stands in the program. @param {PeerOptions} variables What the environment says.
 * @param {string} endpoint Where neither names a broker. @param {Environment} environment
 * @returns {Peer}
 */
export function peerOf(options, variables, endpoint, environment) {
  const endpoints = endpointsOf(options.broker === undefined || options.broker === "" ? variables.broker || endpoint : options.broker);
  const brokerKey = options.brokerKey || variables.brokerKey;
  const secretKey = options.secretKey || variables.secretKey;
  if (!brokerKey && !secretKey) return { endpoints };
  if (!brokerKey || !secretKey) {
    throw new Error("a broker that asks for keys needs both: its public key (brokerKey) and a secret key of one's own (secretKey)");
  }
  if (!capability.curve) throw new Error("this libzmq has no CURVE, so it can show no keys");
  const shown = checkKey("brokerKey", readSecret(brokerKey, environment));
  const secret = checkKey("secretKey", readSecret(secretKey, environment));
  return { endpoints, brokerKey: shown, publicKey: publicKeyOf(secret), secretKey: secret };
}

/** Throws a TypeError where there is none, too many, or what cannot be one. @param {Brokers} brokers */
export function endpointsOf(brokers) {
  const texts = [brokers].flat();
  const endpoints = [...new Set(texts.join(",").split(",").map((part) => part.trim()))];
  const fault =
    texts.length === 0 ? ", with no endpoint"
    : !texts.every((text) => typeof text === "string") ? ""
    : endpoints.length > ENDPOINTS_MAX ? `, with ${endpoints.length} endpoints`
    : !endpoints.every(Boolean) ? ", with an empty entry"
    : undefined;
  if (fault !== undefined) {
    throw new TypeError(
      `broker is ${JSON.stringify(brokers)}${fault}; give 1 to ${ENDPOINTS_MAX} endpoints such as tcp://127.0.0.1:5570, a list or ` +
        "separated by commas");
  }
  endpoints.forEach(checkPort);
  return endpoints;
}

/** Throws a TypeError for a port that cannot be; what else can be none says the connection. @param {string} endpoint */
export function checkPort(endpoint) {
  const port = endpoint.slice(endpoint.lastIndexOf(":") + 1);
  if (!endpoint.startsWith("tcp://") || (/^[0-9]+$/.test(port) && Number(port) >= 1 && Number(port) <= PORT_MAX)) return;
  throw new TypeError(
    `${endpoint} is no endpoint to connect to: its port is not from 1 to ${PORT_MAX}; give one such as tcp://127.0.0.1:5570`);
}

/**
 * Throws a TypeError for an option that there is none of: a slip in a name would have no effect. The options; where they are endpoints
 * alone, these as `broker`.
 * @template {{ broker?: Brokers }} Options
 * @param {Options | Brokers} given
 * @param {readonly (keyof Options)[]} names
 * @returns {Options}
 */
export function optionsOf(given, names) {
  if (typeof given === "string" || Array.isArray(given)) return /** @type {Options} */ ({ broker: given });
  if (given === null || typeof given !== "object") throw new TypeError(`options are an object, not ${given}`);
  const unknown = Object.keys(given).find((name) => !names.includes(/** @type {keyof Options} */ (name)));
  if (unknown !== undefined) throw new TypeError(`there is no option ${unknown}; there are ${names.join(", ")}`);
  return /** @type {Options} */ (given);
}

/** @param {string} what @param {string} key */
function checkKey(what, key) {
  if (key.length === KEY_CHARS && decoded(key)) return key;
  throw new Error(`${what} is no key: a key has ${KEY_CHARS} characters of Z85 (lanemq keygen makes one)`);
}

/** The public key that belongs to a secret one, both in Z85. @param {string} secret */
export function publicKeyOf(secret) {
  const raw = /** @type {Buffer} */ (decoded(secret));
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_OF_X25519, raw]), format: "der", type: "pkcs8" });
  return encoded(createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32));
}

/** @param {string} text @returns {Buffer | undefined} */
function decoded(text) {
  const bytes = Buffer.alloc((text.length / 5) * 4);
  for (let at = 0; at < text.length; at += 5) {
    let value = 0;
    for (const each of text.slice(at, at + 5)) {
      const digit = Z85.indexOf(each);
      if (digit < 0) return undefined;
      value = value * 85 + digit;
    }
    if (value > 0xffffffff) return undefined;
    bytes.writeUInt32BE(value, (at / 5) * 4);
  }
  return bytes;
}

/** @param {Buffer} bytes */
function encoded(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    let [value, five] = [bytes.readUInt32BE(at), ""];
    for (let digit = 0; digit < 5; ++digit) {
      five = Z85[value % 85] + five;
      value = Math.floor(value / 85);
    }
    text += five;
  }
  return text;
}
