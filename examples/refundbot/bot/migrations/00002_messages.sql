-- +goose Up
CREATE TABLE IF NOT EXISTS messages (
    session TEXT NOT NULL,
    turn    BIGINT NOT NULL,
    place   BIGINT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (session, turn, place)
);

CREATE TABLE IF NOT EXISTS memories (
    session TEXT NOT NULL,
    id      TEXT NOT NULL,
    turn    BIGINT NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (session, id)
);

-- +goose Down
DROP TABLE memories;
DROP TABLE messages;
