/**
 * A connection to a broker, for any number of jobs at once.
 *
 * Each call ends once: with the broker's answer, or with a LaneMQError. When the connection breaks, or is silent for 3 s, a new one
 * is made and all that is open is sent again under the same ids; the broker joins it to what it has. What is submitted in one turn
 * of the loop travels together. Ctrl-C, an aborted signal, and a stream or `map` that is left before its end cancel the jobs that
 * they submitted. A client keeps the process alive until it is closed.
 */
export class Client {
    /**
     * Connects to the broker; that never fails, and requests are sent once it is there. Throws an Error for an endpoint or a key that
     * is none, a RangeError for a bound of no room, a TypeError for an option that there is none of.
     * @param {ClientOptions | import("./settings.js").Brokers} [given] Options, or `broker` alone.
     */
    constructor(given?: ClientOptions | import("./settings.js").Brokers);
    /** Figures since the client was made: `sent`, `resent`, `answered`, `expired`, `reconnected` and others. */
    get counters(): {
        sent: number;
        resent: number;
        answered: number;
        expired: number;
        droppedAnswers: number;
        undecodable: number;
        reconnected: number;
        messages: number;
    };
    /**
     * Has a job done, and waits for its answer.
     * @param {string} service
     * @param {Body} [body]
     * @param {SubmitOptions} [options]
     * @returns {Promise<Answer>}
     */
    submit(service: string, body?: Body, options?: SubmitOptions): Promise<Answer>;
    /**
     * Leaves a job with the broker; fulfilled when it is accepted. Any client can `fetch` its answer by the id, for as long as the
     * broker keeps it (`retainMs`). `stream`: the answer is made in pieces, for `follow`.
     * @param {string} service
     * @param {Body} [body]
     * @param {SubmitOptions & { stream?: boolean }} [options]
     * @returns {Promise<Accepted>}
     */
    leave(service: string, body?: Body, options?: SubmitOptions & {
        stream?: boolean;
    }): Promise<Accepted>;
    /**
     * The answer of a job of any client. `waitMs`: for how long to wait for its end; without it as long as it takes. Throws
     * NotOverError after that time, NotFoundError, GoneError, or the error that the job ended with.
     * @param {string} id
     * @param {Signalled & { waitMs?: number }} [options]
     * @returns {Promise<Answer>}
     */
    fetch(id: string, { waitMs, signal }?: Signalled & {
        waitMs?: number;
    }): Promise<Answer>;
    /**
     * How far a job is; its state is `unknown` where nobody knows the id.
     * @param {string} id
     * @returns {Promise<Status>}
     */
    status(id: string): Promise<Status>;
    /**
     * What a job waits for, and what would help, in sentences.
     * @param {string} id
     */
    explain(id: string): Promise<import("./types.js").Explanation>;
    /**
     * Ends a job, and says how far it is then. A job that is over stays what it is.
     * @param {string} id
     * @returns {Promise<Status>}
     */
    cancel(id: string): Promise<Status>;
    /**
     * Asks whether the broker is there. Throws DeadlineError after 10 s.
     * @returns {Promise<Pong>}
     */
    ping(): Promise<Pong>;
    /**
     * Has a job done whose answer comes in pieces, for `for await`. The job is submitted when the first piece is asked for.
     * @param {string} service
     * @param {Body} [body]
     * @param {SubmitOptions} [options]
     * @returns {Stream}
     */
    stream(service: string, body?: Body, options?: SubmitOptions): Stream;
    /**
     * The pieces of a job of any client that was submitted as a stream, from the piece `first` on: what the broker keeps, and then
     * what comes. A stream that is followed is not cancelled when it is left.
     * @param {string} id
     * @param {Signalled & { first?: number }} [options]
     * @returns {Stream}
     */
    follow(id: string, { first, signal }?: Signalled & {
        first?: number;
    }): Stream;
    /**
     * Follows what becomes of jobs: those that all of this fits, of any client. For `for await`; it begins when the first event is asked
     * for, and has no end.
     *
     * The first event is `watching`: from then on no change goes untold. It comes again, with `gap`, after each connection that was lost;
     * ask `status` of what you have to know then. A reader that is 1024 events behind misses some, and the next one it gets says so
     * (`gap`, `leftOut`). Ends with a LaneMQError where the broker refuses the watch, or the client is closed.
     * @param {WatchOptions & Signalled} [options]
     * @returns {Watch}
     */
    watch({ signal, ...options }?: WatchOptions & Signalled): Watch;
    /**
     * Has a job done for each body, up to `window` of them at once, and yields the answers.
     *
     * `bodies` is read as answers are taken; an item that is a `Job` has an id or options of its own. `Answer.index` is the place in the
     * input. An iterator that is left cancels what is under way.
     * @overload
     * @param {string} service
     * @param {Iterable<Body | Job> | AsyncIterable<Body | Job>} bodies
     * @param {JobOptions & MapHow & { errors: "return" }} options
     * @returns {AsyncIterableIterator<Answer | LaneMQError>}
     */
    map(service: string, bodies: Iterable<Body | Job> | AsyncIterable<Body | Job>, options: JobOptions & MapHow & {
        errors: "return";
    }): AsyncIterableIterator<Answer | LaneMQError>;
    /**
     * @overload
     * @param {string} service
     * @param {Iterable<Body | Job> | AsyncIterable<Body | Job>} bodies
     * @param {JobOptions & MapHow & { errors?: "throw" }} [options]
     * @returns {AsyncIterableIterator<Answer>}
     */
    map(service: string, bodies: Iterable<Body | Job> | AsyncIterable<Body | Job>, options?: (import("./types.js").JobOptions & MapHow & {
        errors?: "throw";
    }) | undefined): AsyncIterableIterator<Answer>;
    /** Cancels what is under way, and ends the connection. Waits up to 3 s for the broker to hear of it, and a second where there is none. */
    close(): Promise<void>;
    /** `await using client = new Client()`, where the language has it. */
    [Symbol.asyncDispose](): Promise<void>;
    #private;
}
/**
 * An answer that comes in pieces: an asynchronous iterator of Buffers.
 *
 * The broker holds its upstream back where this reader is 64 pieces or 256 KiB behind; a reader that takes no piece for 30 s ends with
 * SlowReaderError. Left before its end, it cancels the job that it submitted.
 * @extends {RequestReader<Buffer>}
 */
export class Stream extends RequestReader<Buffer<ArrayBufferLike>> {
    /**
     * @internal
     * @param {Engine} engine
     * @param {Request} request
     * @param {Signalled & Pick<JobOptions, "whenFull">} options
     */
    constructor(engine: Engine, request: Request, { signal, whenFull }: Signalled & Pick<JobOptions, "whenFull">);
    /**
     * What the job is when it is over: its usage, times, and the part of its body that no piece carried.
     * @type {Answer | undefined}
     */
    answer: Answer | undefined;
    /** The job's id. */
    id: string;
}
/**
 * Events of jobs, as Client.watch() says: an asynchronous iterator.
 * @extends {RequestReader<JobEvent>}
 */
export class Watch extends RequestReader<import("./watching.js").JobEvent> {
    /**
     * @internal
     * @param {Engine} engine
     * @param {Request} request
     * @param {AbortSignal | undefined} signal
     */
    constructor(engine: Engine, request: Request, signal: AbortSignal | undefined);
}
export type Accepted = import("./types.js").Accepted;
export type Answer = import("./types.js").Answer;
export type Body = import("./types.js").Body;
export type Job = import("./types.js").Job;
export type JobOptions = import("./types.js").JobOptions;
export type Pong = import("./types.js").Pong;
export type Status = import("./types.js").Status;
export type SubmitOptions = import("./types.js").SubmitOptions;
export type JobEvent = import("./watching.js").JobEvent;
/**
 * Whose changes; without any of these of all jobs.
 */
export type WatchOptions = {
    id?: string;
    client?: string;
    lane?: string;
    service?: string;
    group?: string;
};
export type Signalled = {
    signal?: AbortSignal;
};
export type ClientOptions = {
    /**
     * Its endpoint for clients; without it LANEMQ_BROKER, else tcp://127.0.0.1:5570.
     * Where other brokers go on in its place the endpoints of all, a list or separated by commas: it is connected to one at a time. Of
     * several shards it stays with the first that answers.
     */
    broker?: import("./settings.js").Brokers | undefined;
    /**
     * For a broker that asks for keys its public key: 40 characters, or `file:PATH`, `env:VARIABLE`,
     * `credential:NAME`; without it LANEMQ_BROKER_KEY.
     */
    brokerKey?: string | undefined;
    /**
     * A key of one's own, in the same ways; without it LANEMQ_CLIENT_KEY.
     */
    secretKey?: string | undefined;
    /**
     * The most requests without an answer.
     */
    pendingMax?: number | undefined;
    /**
     * The most bytes of their bodies.
     */
    pendingBytesMax?: number | undefined;
    /**
     * Where what is for people goes; without it warnings and errors go to stderr.
     */
    log?: import("./drive.js").Log | undefined;
};
export type MapHow = {
    /**
     * In the order of the bodies (true), or as answers come.
     */
    ordered?: boolean | undefined;
    /**
     * The most jobs under way at once.
     */
    window?: number | undefined;
    /**
     * A line on stderr that says how far it is; without it where stderr is a terminal.
     */
    progress?: boolean | undefined;
    /**
     * `throw`: the first job that failed ends it, and the others are cancelled. `return`: errors
     * come in the place of answers.
     */
    errors?: "throw" | "return" | undefined;
    /**
     * Aborted, it ends with the signal's reason, and what is under way is cancelled.
     */
    signal?: AbortSignal | undefined;
};
import { LaneMQError } from "./errors.js";
/**
 * Reads what comes of one request: events, until one of them is the end.
 * @template T
 * @extends {Reader<T>}
 */
declare class RequestReader<T> extends Reader<T> {
    /**
     * @param {Engine} engine
     * @param {Request} request
     * @param {AbortSignal | undefined} signal
     * @param {boolean} waits as Engine.begin() has it
     */
    constructor(engine: Engine, request: Request, signal: AbortSignal | undefined, waits: boolean);
    /** @protected */
    protected engine: Engine;
    /** @protected */
    protected request: Request;
    /**
     * What the reader gets of an event, which the broker is told; undefined where the event is the end.
     * @abstract
     * @protected
     * @param {any} _event
     * @returns {T | undefined}
     */
    protected taken(_event: any): T | undefined;
    /**
     * Takes the end, or throws it.
     * @protected
     * @param {any} event
     */
    protected finish(event: any): void;
    #private;
}
import { Engine } from "./engine.js";
import { Request } from "./session.js";
/**
 * What `for await` reads, one at a time: an iterator that a `break`, or return(), ends at once, also while it waits.
 * @template T
 */
declare class Reader<T> {
    /** @param {AbortSignal | undefined} signal */
    constructor(signal: AbortSignal | undefined);
    /** @returns {Promise<IteratorResult<T, undefined>>} */
    next(): Promise<IteratorResult<T, undefined>>;
    /**
     * Reads no more. What was submitted is cancelled; fulfilled when the broker has heard of it, or has been silent for 3 s.
     * @returns {Promise<IteratorResult<T, undefined>>}
     */
    return(): Promise<IteratorResult<T, undefined>>;
    /** As return(). */
    close(): Promise<void>;
    /**
     * Something has come.
     * @protected
     */
    protected ring(): void;
    /**
     * The next one where it is there, undefined where it has to be waited for. Throws what ends it.
     * @abstract
     * @protected
     * @returns {IteratorResult<T, undefined> | undefined}
     */
    protected take(): IteratorResult<T, undefined> | undefined;
    /**
     * Nobody reads any more.
     * @abstract
     * @protected
     * @returns {Promise<void>}
     */
    protected abandon(): Promise<void>;
    [Symbol.asyncIterator](): this;
    /** `await using`, where the language has it. */
    [Symbol.asyncDispose](): Promise<void>;
    #private;
}
export {};
