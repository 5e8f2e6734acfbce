/**
 * What a handler returned.
 * @param {unknown} answer
 * @returns {Outcome}
 */
export function ofAnswer(answer: unknown): Outcome;
/**
 * What a handler threw.
 * @param {unknown} fault
 * @returns {Outcome}
 */
export function ofFault(fault: unknown): Outcome;
/** An answer that says more than its body. `usage`, `limits`: of the upstream, as the protocol names them. */
export class Result {
    /**
     * @param {import("./types.js").Body} [body]
     * @param {{ usage?: Record<string, number>, limits?: Record<string, number> }} [more]
     */
    constructor(body?: import("./types.js").Body, { usage, limits }?: {
        usage?: Record<string, number>;
        limits?: Record<string, number>;
    });
    body: import("./types.js").Body;
    usage: Record<string, number> | undefined;
    limits: Record<string, number> | undefined;
}
export function ofCancel(): Outcome;
export function isBad({ fields }: Outcome): boolean;
export function unreadable(problem: string): Outcome;
export function cut(text: string): string;
export type Fields = import("./wire.js").Fields;
/**
 * What a handler came to.
 */
export type Outcome = {
    op: "result" | "error";
    fields: Fields;
    body?: Uint8Array;
};
